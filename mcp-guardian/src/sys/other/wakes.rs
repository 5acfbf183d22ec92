//! Wakes a process that waits for a server: by kqueue.

use std::io::{self, PipeReader};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use nix::sys::time::TimeSpec;
use nix::unistd::getppid;

use super::super::{Wake, unix};

/// The signals of this process, and the ends of its standard input and its parent.
#[derive(Debug)]
pub struct Wakes {
    queue: Kqueue,
    signals: PipeReader,
}

const INPUT: usize = 0;

impl Wakes {
    /// Keeps the standard input open: that the server has closed it cannot be seen.
    pub fn new() -> io::Result<Self> {
        use EventFilter::{EVFILT_PROC, EVFILT_READ};
        let (queue, signals) = (Kqueue::new()?, unix::note_signals()?);
        let add = |ident, filter, flags, what, data| {
            let event = KEvent::new(ident, filter, EvFlags::EV_ADD | flags, what, data, 0);
            queue.kevent(&[event], &mut [], None)
        };
        let number = signals.as_raw_fd().unsigned_abs() as usize;
        let (level, nothing) = (EvFlags::empty(), FilterFlag::empty());
        add(number, EVFILT_READ, level, nothing, 0)?;
        // As seldom as there is more to read; a file has no end.
        let (edge, low_water) = (EvFlags::EV_CLEAR, FilterFlag::NOTE_LOWAT);
        let _ = add(INPUT, EVFILT_READ, edge, low_water, i32::MAX as isize);
        // A parent that is gone meanwhile has closed the input.
        let parent = getppid().as_raw().unsigned_abs() as usize;
        let (once, exit) = (EvFlags::EV_ONESHOT, FilterFlag::NOTE_EXIT);
        let _ = add(parent, EVFILT_PROC, once, exit, 0);
        Ok(Self { queue, signals })
    }

    /// Returns an event, or `None` at the limit, and sometimes before.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Option<Wake>> {
        let (level, nothing) = (EvFlags::empty(), FilterFlag::empty());
        let mut events = [KEvent::new(
            0,
            EventFilter::EVFILT_READ,
            level,
            nothing,
            0,
            0,
        )];
        let limit = limit.map(|limit| *TimeSpec::from_duration(limit).as_ref());
        match self.queue.kevent(&[], &mut events, limit) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => Ok(match (events[0].filter(), events[0].ident()) {
                (Ok(EventFilter::EVFILT_PROC), _) => Some(Wake::HostGone),
                (_, INPUT) => {
                    let is_end = events[0].flags().contains(EvFlags::EV_EOF);
                    is_end.then_some(Wake::InputEnded)
                }
                _ => unix::next_signal(&self.signals).map(Wake::Signal),
            }),
            Err(errno) => Err(errno.into()),
        }
    }
}
