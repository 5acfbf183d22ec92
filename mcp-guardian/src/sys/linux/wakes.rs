//! Wakes a process that waits for a server: by epoll.

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::super::{Wake, unix};

/// The signals of this process, and the ends of its standard input and its parent.
#[derive(Debug)]
pub struct Wakes {
    epoll: Epoll,
    signals: PipeReader,
    _parent: Option<OwnedFd>,
}

const SIGNAL: u64 = 0;
const INPUT: u64 = 1;
const PARENT: u64 = 2;

impl Wakes {
    /// Gives up the standard input: a copy here would hide that the server has closed it.
    pub fn new() -> io::Result<Self> {
        let (epoll, signals) = (
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            unix::note_signals()?,
        );
        epoll.add(&signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNAL))?;
        let end = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLONESHOT;
        // A file has no end.
        let _ = epoll.add(io::stdin(), EpollEvent::new(end, INPUT));
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        let parent = super::hold_parent();
        if let Some(parent) = &parent {
            let exit = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
            epoll.add(parent, EpollEvent::new(exit, PARENT))?;
        }
        Ok(Self {
            epoll,
            signals,
            _parent: parent,
        })
    }

    /// Returns an event, or `None` at the limit, and sometimes before.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Option<Wake>> {
        let limit = limit.map_or(EpollTimeout::NONE, |limit| {
            // Rounded up.
            let limit = limit.saturating_add(Duration::from_millis(1));
            EpollTimeout::try_from(limit).unwrap_or(EpollTimeout::MAX)
        });
        let mut events = [EpollEvent::empty()];
        match self.epoll.wait(&mut events, limit) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => Ok(match events[0].data() {
                INPUT => Some(Wake::InputEnded),
                PARENT => Some(Wake::HostGone),
                _ => unix::next_signal(&self.signals).map(Wake::Signal),
            }),
            Err(errno) => Err(errno.into()),
        }
    }
}
