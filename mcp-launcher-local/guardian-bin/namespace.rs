//! A server in a PID namespace: the namespace's init, which is this program too.
//!
//! The kernel ends everything in the namespace when its init ends, and it ends when the guardian does, whoever killed that: nothing else needs to
//! be alive for it. Init reaps what is orphaned inside and ends by itself when nobody is left.

use crate::launch;
use crate::params::Params;
use crate::protocol::{CONTROL_FD, Stage};
use crate::sys::{self, Args, Errno, Fd, Fork, Pid, PollFd, Reaped, Signals};

/// The guardian's ends.
pub(crate) struct Namespace {
    /// The wait status of the server's own process, when that has exited.
    pub(crate) status: Fd,
    /// Init ends when this is closed. Never written to.
    _lifeline: Fd,
}

/// Init's ends.
struct Inside {
    status: Fd,
    lifeline: Fd,
}

/// Creates the init of a new namespace. Returns in the guardian only.
///
/// `report` is where init and the server say what failed.
pub(crate) fn create(
    args: &Args,
    params: &Params<'_>,
    report: &Fd,
) -> Result<(Pid, Namespace), Errno> {
    let (status, inner_status) = sys::pipe()?;
    let (inner_lifeline, lifeline) = sys::pipe()?;
    // As they are outside: inside, before they are mapped, they are nobody's.
    let ids = sys::effective_ids();
    let (forked, is_mapped) = sys::fork_into_namespace()?;
    match forked {
        Fork::Parent(pid) => Ok((
            pid,
            Namespace {
                status,
                _lifeline: lifeline,
            },
        )),
        Fork::Child => {
            // Or init would keep itself alive.
            drop(lifeline);
            drop(sys::inherited(CONTROL_FD));
            let inside = Inside {
                status: inner_status,
                lifeline: inner_lifeline,
            };
            let (stage, errno) = run(args, params, report, (!is_mapped).then_some(ids), &inside);
            launch::fail(report, stage, errno)
        }
    }
}

/// Init, until nobody is left. Returns what failed before there was anybody.
fn run(
    args: &Args,
    params: &Params<'_>,
    report: &Fd,
    unmapped: Option<(u32, u32)>,
    inside: &Inside,
) -> (Stage, Errno) {
    sys::lead_group(None);
    let prepared = sys::die_with_parent().and_then(|()| match unmapped {
        Some((uid, gid)) => map_ids(uid, gid),
        None => Ok(()),
    });
    if let Err(errno) = prepared {
        return (Stage::Namespace, errno);
    }
    if let Err(errno) = launch::join_cgroup(params) {
        return (Stage::Cgroup, errno);
    }
    let children = match sys::signalfd(Signals::CHILDREN) {
        Ok(children) => children,
        Err(errno) => return (Stage::ChildExits, errno),
    };
    match sys::fork() {
        Err(errno) => (Stage::Fork, errno),
        Ok(Fork::Child) => launch::become_server(args, params, sys::getpid_of_init()),
        Ok(Fork::Parent(server)) => {
            (0..3).for_each(|fd| drop(sys::inherited(fd)));
            // The server's copy is the last one now, and closes on exec.
            sys::close_copy(report);
            let _ = sys::chdir(c"/");
            sys::set_name(c"mcp-init");
            watch(server, &children, inside)
        }
    }
}

fn watch(server: Pid, children: &Fd, inside: &Inside) -> ! {
    loop {
        let mut fds = [
            PollFd::readable(Some(children)),
            PollFd::readable(Some(&inside.lifeline)),
        ];
        sys::poll(&mut fds, None);
        let [exits, lifeline] = fds;
        if lifeline.ready() {
            // The guardian is gone; with this, so is everybody.
            sys::exit(crate::EXIT_NOT_STARTED);
        }
        if exits.ready() {
            let _ = sys::read(children, &mut [0; 128]);
        }
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) if pid == server.get() => {
                    let _ = sys::write(&inside.status, &status.to_le_bytes());
                }
                Reaped::Child(..) => {}
                Reaped::NoneYet => break,
                Reaped::NoChildren => sys::exit(0),
            }
        }
    }
}

/// Inside of a user namespace of its own, the user is who they are outside.
fn map_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/uid_map", Line::mapping(uid).bytes())?;
    write_file(c"/proc/self/gid_map", Line::mapping(gid).bytes())
}

fn write_file(path: &core::ffi::CStr, text: &[u8]) -> Result<(), Errno> {
    let file = sys::open_to_write(path)?;
    sys::write(&file, text).map(|_| ())
}

/// "ID ID 1", where nothing can be allocated.
struct Line {
    text: [u8; 24],
    len: usize,
}

impl Line {
    fn mapping(id: u32) -> Self {
        let mut line = Self {
            text: [b' '; 24],
            len: 0,
        };
        line.number(id);
        line.number(id);
        line.number(1);
        line
    }

    /// The digits, and a space.
    fn number(&mut self, number: u32) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = number;
        for place in (self.len..self.len + digits).rev() {
            if let Some(byte) = self.text.get_mut(place) {
                *byte = b'0' + (rest % 10) as u8;
            }
            rest /= 10;
        }
        self.len += digits + 1;
    }

    fn bytes(&self) -> &[u8] {
        self.text.get(..self.len.saturating_sub(1)).unwrap_or_default()
    }
}
