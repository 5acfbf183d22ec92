//! Decides which orphans of a living host are abandoned. Pure; the tests include this file by path.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// A pipe or socket. No process has its other end.
    Closed,
    /// A file, a terminal, or the host's own.
    Other,
    /// A pipe or socket in use, or unknown.
    Open,
}

/// Returns whether nothing can reach it, or read what it writes. Daemons have other streams.
pub(crate) fn is_cut_off([input, output, error]: [Stream; 3]) -> bool {
    [input, output] == [Stream::Closed; 2] && error != Stream::Open
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Wait,
    Ask,
    Kill,
}

/// The abandoned orphans, and when each was asked to end. Their pids are reserved until they are reaped.
#[derive(Default)]
pub(crate) struct Looks {
    pub(crate) due: u64,
    found: [(u32, Option<u64>); 32],
}

impl Looks {
    /// Decides on one that is found abandoned: it is asked at the second look.
    pub(crate) fn found(&mut self, pid: u32, now: u64, grace: u64) -> Act {
        if let Some((_, asked)) = self.found.iter_mut().find(|it| it.0 == pid) {
            return match now.saturating_sub(*asked.get_or_insert(now)) {
                0 => Act::Ask,
                waited if waited >= grace => Act::Kill,
                _ => Act::Wait,
            };
        }
        if let Some(free) = self.found.iter_mut().find(|it| it.0 == 0) {
            free.0 = pid;
        }
        Act::Wait
    }

    /// Forgets a process. Returns whether it was asked to end.
    pub(crate) fn reaped(&mut self, pid: u32) -> bool {
        let found = self.found.iter_mut().find(|it| it.0 == pid);
        found.is_some_and(|found| core::mem::take(found).1.is_some())
    }
}
