//! The order to a spare guardian: what it is to start.

use std::ffi::{CStr, CString};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::handle::GuardianHandle;
use super::order_format::{ORDER_FDS_MAX, ORDER_HEADER, ORDER_MAX, ORDER_STRINGS_MAX, OrderHeader};
use crate::sys::uninterrupted;

/// A server for a guardian that was started as a [spare](super::SpawnRequest::spare). As the fields of that request of the same names.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The program: a path, which is not searched for.
    pub program: &'a CStr,
    /// Its arguments, the name it is called by first.
    pub argv: &'a [CString],
    /// Its environment.
    pub env: &'a [CString],
    /// The working directory, relative to [`directory`](Self::directory); `None` for that one.
    pub cwd: Option<&'a CStr>,
    /// A directory that is open: the guardian itself is nowhere.
    pub directory: BorrowedFd<'a>,
    /// Its standard input.
    pub stdin: BorrowedFd<'a>,
    /// Its standard output.
    pub stdout: BorrowedFd<'a>,
    /// Its standard error.
    pub stderr: BorrowedFd<'a>,
    /// The time it has to end by itself, after SIGTERM, once the host is gone. Counted in milliseconds, at most 49 days.
    pub grace: Duration,
}

impl Order<'_> {
    /// The datagram; `None` if a spare guardian has no room for it.
    fn encode(&self) -> Option<Vec<u8>> {
        let strings = || {
            let cwd = self.cwd.unwrap_or_default();
            let lists = self.argv.iter().chain(self.env).map(CString::as_c_str);
            [cwd, self.program].into_iter().chain(lists)
        };
        let len: usize = strings().map(|text| text.to_bytes_with_nul().len()).sum();
        let fits = ORDER_HEADER + len <= ORDER_MAX
            && self.argv.len() + self.env.len() <= ORDER_STRINGS_MAX;
        if !fits {
            return None;
        }
        let header = OrderHeader {
            grace: u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX),
            args: u32::try_from(self.argv.len()).ok()?,
            env: u32::try_from(self.env.len()).ok()?,
        };
        let mut bytes = Vec::with_capacity(ORDER_HEADER + len);
        bytes.extend(header.encode());
        strings().for_each(|text| bytes.extend(text.to_bytes_with_nul()));
        Some(bytes)
    }
}

impl GuardianHandle {
    /// Tells a spare guardian what to start. How that went, it [reports](super::protocol::Report) as any other.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ArgumentListTooLong`] if arguments and environment are more than an order can hold; otherwise the spare has ended. Nothing was
    /// started, nor will be.
    pub fn order(&self, order: &Order<'_>) -> io::Result<()> {
        crate::sys::not_forked()?;
        let too_long = io::ErrorKind::ArgumentListTooLong;
        let bytes = order.encode().ok_or(too_long)?;
        let fds: [_; ORDER_FDS_MAX] =
            [order.stdin, order.stdout, order.stderr, order.directory].map(|fd| fd.as_raw_fd());
        let socket = self.control().as_raw_fd();
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let pieces = [IoSlice::new(&bytes)];
        let passed = [ControlMessage::ScmRights(&fds)];
        let sent = uninterrupted(|| sendmsg::<()>(socket, &pieces, &passed, flags, None));
        sent.map(drop).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    fn order<'a>(null: &'a File, argv: &'a [CString], env: &'a [CString]) -> Order<'a> {
        Order {
            program: c"/bin/true",
            argv,
            env,
            cwd: None,
            directory: null.as_fd(),
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: null.as_fd(),
            grace: Duration::from_millis(1500),
        }
    }

    #[test]
    fn an_order_says_all_in_its_order() {
        let null = File::open("/dev/null").unwrap();
        let (argv, env) = ([c"true".to_owned()], [c"A=1".to_owned(), c"B=".to_owned()]);
        let bytes = order(&null, &argv, &env).encode().unwrap();
        let header = OrderHeader::decode(&bytes).unwrap();
        assert_eq!((header.grace, header.args, header.env), (1500, 1, 2));
        assert_eq!(&bytes[ORDER_HEADER..], b"\0/bin/true\0true\0A=1\0B=\0");
    }

    #[test]
    fn what_does_not_fit_is_no_order() {
        let null = File::open("/dev/null").unwrap();
        let long = [CString::new(vec![b'x'; ORDER_MAX]).unwrap()];
        assert!(order(&null, &long, &[]).encode().is_none());
        let many = vec![CString::default(); ORDER_STRINGS_MAX];
        assert!(order(&null, &many, &[]).encode().is_some());
        assert!(order(&null, &many, &long[..1]).encode().is_none());
    }
}
