//! The other ends of a process's descriptors.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::sys::{self, is_gone};

/// Returns whether its standard input is a pipe or a Unix socket with the other end closed in every
/// process. A daemon has neither. `false` if that cannot be found out.
pub(super) fn is_abandoned(pid: u32) -> bool {
    let Some(input) = target(pid, "0") else {
        return false;
    };
    match number_in(&input, "socket:[") {
        Some(inode) => peer_is_closed(inode).unwrap_or(false),
        None => number_in::<u64>(&input, "pipe:[").is_some() && has_no_writer(pid).unwrap_or(false),
    }
}

/// Does the same for a socket only, and returns `true` if that cannot be found out.
pub(super) fn may_be_without_server(pid: u32) -> bool {
    let Some(input) = target(pid, "0") else {
        return true;
    };
    let inode = number_in(&input, "socket:[");
    inode.is_some_and(|inode| peer_is_closed(inode).unwrap_or(true))
}

/// Returns whether it listens on a socket; `true` if that cannot be found out.
pub(super) fn may_listen(pid: u32) -> bool {
    let listens = || -> io::Result<bool> {
        let own = sockets_of(pid)?;
        for list in LISTS.iter().filter(|_| !own.is_empty()) {
            match sys::text_of(format!("/proc/{pid}/net/{}", list.0)) {
                Ok(text) if listeners(&text, list).any(|it| own.contains(&it)) => return Ok(true),
                // For example without IPv6.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    };
    let has_ended = || sys::look_at(pid).is_ok_and(|it| it.is_none_or(|it| it.has_ended()));
    listens().unwrap_or_else(|_| !has_ended())
}

/// Returns whether no process has the pipe open for writing: exactly then it hangs up for a reader.
fn has_no_writer(pid: u32) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let pipe = options.open(format!("/proc/{pid}/fd/0"))?;
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO)?;
    Ok(fds[0]
        .revents()
        .is_some_and(|it| it.contains(PollFlags::POLLHUP)))
}

/// Returns the numbers of the sockets that the Unix sockets of a process are connected to.
/// Fails if the kernel reports that for none of them.
pub(super) fn peers_of(pid: u32) -> io::Result<BTreeSet<u32>> {
    let (mut peers, mut has_answered) = (BTreeSet::new(), false);
    let mut refused = io::ErrorKind::NotFound.into();
    for socket in sockets_of(pid)? {
        match peer_of(socket) {
            Ok((peer, _)) => {
                has_answered = true;
                peers.extend(peer);
            }
            // For example a socket of another family.
            Err(error) => refused = error,
        }
    }
    match has_answered {
        true => Ok(peers),
        false => Err(refused),
    }
}

/// Returns the number of the socket that is the standard input of a process, if it is one.
pub(super) fn input_of(pid: u32) -> io::Result<Option<u32>> {
    match fs::read_link(format!("/proc/{pid}/fd/0")) {
        Ok(input) => Ok(input.to_str().and_then(|it| number_in(it, "socket:["))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the peer of a Unix socket is closed: it has no number, as one that waits to be
/// accepted has none, and both directions are shut down.
fn peer_is_closed(inode: u32) -> io::Result<bool> {
    Ok(peer_of(inode)? == (Some(0), Some(3)))
}

/// Queries the kernel for the peer and for the directions that were shut down (`sock_diag(7)`).
fn peer_of(inode: u32) -> io::Result<(Option<u32>, Option<u8>)> {
    const BY_FAMILY: u16 = 20;
    const SHOW_PEER: u32 = 4;
    const ANY_COOKIE: u32 = u32::MAX;
    const REQUEST: u16 = 1;
    let [family, ..] = (libc::AF_UNIX as u16).to_le_bytes();
    let mut asked = Vec::new();
    // A `nlmsghdr` and a `unix_diag_req`.
    asked.extend(40_u32.to_ne_bytes());
    asked.extend([BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    asked.extend([0_u8; 8]);
    asked.extend([family, 0, 0, 0]);
    let numbers = [u32::MAX, inode, SHOW_PEER, ANY_COOKIE, ANY_COOKIE];
    asked.extend(numbers.map(u32::to_ne_bytes).concat());
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    send(kernel.as_raw_fd(), &asked, MsgFlags::empty())?;
    // The answer is queued before `send` returns.
    let mut answer = [0; 512];
    let len = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    peer_in(&answer[..len], BY_FAMILY).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads a `nlmsghdr`, a `unix_diag_msg` and attributes; `None` for another answer.
fn peer_in(answer: &[u8], wanted: u16) -> Option<(Option<u32>, Option<u8>)> {
    const ATTRIBUTES: usize = 32;
    const PEER: u16 = 2;
    const SHUTDOWN: u16 = 6;
    let word = |bytes: &[u8]| Some(u16::from_ne_bytes(*bytes.first_chunk()?));
    if answer.get(4..).and_then(word) != Some(wanted) {
        return None;
    }
    let (mut peer, mut shutdown) = (None, None);
    let mut rest = answer.get(ATTRIBUTES..).unwrap_or_default();
    while let (Some(len), Some(kind)) = (word(rest), rest.get(2..).and_then(word)) {
        let value = rest.get(4..usize::from(len)).unwrap_or_default();
        match kind {
            PEER => peer = value.first_chunk().map(|it| u32::from_ne_bytes(*it)),
            SHUTDOWN => shutdown = value.first().copied(),
            _ => {}
        }
        rest = rest
            .get(usize::from(len).next_multiple_of(4).max(4)..)
            .unwrap_or_default();
    }
    Some((peer, shutdown))
}

/// The kernel's lists of sockets: the name, the column of the state, the state of a listening socket,
/// and the column of the inode.
type List = (&'static str, usize, &'static str, usize);

const LISTS: [List; 3] = [
    ("tcp", 3, "0A", 9),
    ("tcp6", 3, "0A", 9),
    ("unix", 3, "00010000", 6),
];

fn listeners<'a>(text: &'a str, list: &'a List) -> impl Iterator<Item = u32> + use<'a> {
    let (_, state, listening, inode) = list;
    text.lines().filter_map(move |line| {
        let columns: Vec<_> = line.split_ascii_whitespace().collect();
        let listens = columns.get(*state) == Some(listening);
        columns.get(*inode).filter(|_| listens)?.parse().ok()
    })
}

fn sockets_of(pid: u32) -> io::Result<BTreeSet<u32>> {
    let mut sockets = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let name = entry?.file_name();
        let target = target(pid, &name.to_string_lossy());
        sockets.extend(target.and_then(|it| number_in::<u32>(&it, "socket:[")));
    }
    Ok(sockets)
}

fn number_in<T: std::str::FromStr>(target: &str, kind: &str) -> Option<T> {
    target.strip_prefix(kind)?.strip_suffix(']')?.parse().ok()
}

fn target(pid: u32, descriptor: &str) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    target.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn inode(file: &impl std::os::fd::AsFd) -> u32 {
        let file = fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
        file.metadata().unwrap().ino().try_into().unwrap()
    }

    /// Waits: a child that another test starts has copies of all descriptors until it executes.
    fn soon(is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }

    #[test]
    fn a_closed_peer_is_reported_by_the_kernel() {
        let (own, other) = UnixStream::pair().unwrap();
        assert!(!peer_is_closed(inode(&own)).unwrap());
        own.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(!peer_is_closed(inode(&own)).unwrap());
        let copy = other.try_clone().unwrap();
        drop(other);
        assert!(!peer_is_closed(inode(&own)).unwrap());
        drop(copy);
        soon(|| peer_is_closed(inode(&own)).unwrap());
        let (own, other) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(inode(&own)).unwrap().0, Some(inode(&other)));
        let peers = peers_of(std::process::id()).unwrap();
        assert!(peers.contains(&inode(&own)) && peers.contains(&inode(&other)));
        let gone = inode(&own);
        drop(own);
        soon(|| peer_is_closed(gone).is_err());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let unaccepted = UnixStream::connect(&path).unwrap();
        assert!(!peer_is_closed(inode(&unaccepted)).unwrap());
        assert!(!peer_is_closed(inode(&listener)).unwrap());
    }

    #[test]
    fn listeners_are_found_in_the_kernels_lists() {
        let own = std::process::id();
        let listens = |inode: u32| {
            LISTS.iter().any(|list| {
                let text = sys::text_of(format!("/proc/{own}/net/{}", list.0));
                text.is_ok_and(|text| listeners(&text, list).any(|it| it == inode))
            })
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(inode(&listener)));
        assert!(may_listen(own));
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!listens(inode(&client)));
        let directory = tempfile::tempdir().unwrap();
        let local = UnixListener::bind(directory.path().join("socket")).unwrap();
        assert!(listens(inode(&local)));
    }
}
