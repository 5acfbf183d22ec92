//! Types of the system call layer, which are hard to misuse.

/// A pid that may be signalled: to `kill`, 0, -1 and negative numbers are groups or all processes,
/// and 1 is init. A value of this type is none of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pid(i32);

impl Pid {
    pub(crate) fn new(number: u32) -> Option<Self> {
        i32::try_from(number)
            .ok()
            .filter(|&number| number > 1)
            .map(Self)
    }

    pub(crate) fn get(self) -> u32 {
        self.0.cast_unsigned()
    }

    pub(super) fn raw(self) -> i32 {
        self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const EPERM: Self = Self(1);
    pub(crate) const ENOENT: Self = Self(2);
    pub(crate) const ESRCH: Self = Self(3);
    pub(crate) const EINTR: Self = Self(4);
    pub(crate) const ECHILD: Self = Self(10);
    pub(crate) const ECONNRESET: Self = Self(104);
    pub(crate) const EAGAIN: Self = Self(11);
    pub(crate) const ENOMEM: Self = Self(12);
    pub(crate) const EBUSY: Self = Self(16);
    pub(crate) const EINVAL: Self = Self(22);
    pub(crate) const ENOTSOCK: Self = Self(88);
    pub(crate) const ENOBUFS: Self = Self(105);
}

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// An open file descriptor, closed when dropped.
pub(crate) struct Fd(pub(super) i32);

impl Fd {
    pub(crate) fn is(&self, number: u32) -> bool {
        self.0.cast_unsigned() == number
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        super::file::close(self.0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal(u8);

impl Signal {
    pub(crate) const HUP: Self = Self(1);
    pub(crate) const INT: Self = Self(2);
    pub(crate) const KILL: Self = Self(9);
    pub(crate) const TERM: Self = Self(15);
    pub(crate) const CHLD: Self = Self(17);
    pub(crate) const CONT: Self = Self(18);

    pub(crate) fn new(number: u8) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u8 {
        self.0
    }

    pub(super) fn word(self) -> usize {
        usize::from(self.0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Signals(pub(super) u64);

impl Signals {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(u64::MAX);
    pub(crate) const CHILDREN: Self = Self(bit(17));
    /// All but those that cannot be blocked, those that stop and continue, and SIGCHLD.
    pub(crate) const PASSED_ON: Self =
        Self(!(bit(9) | bit(19) | bit(17) | bit(18) | bit(20) | bit(21) | bit(22)));

    pub(crate) fn all_but(signal: u32) -> Self {
        Self(!bit(signal))
    }
}

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

pub(crate) enum Fork {
    Child,
    Parent(Pid),
}

pub(crate) enum Reaped {
    Child(u32, i32),
    NoneYet,
    NoChildren,
}

/// A descriptor to wait for. The kernel skips a closed one (`None`).
#[repr(C)]
pub(crate) struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

impl PollFd {
    const IN: i16 = 1;
    const OUT: i16 = 4;

    pub(crate) fn readable(fd: Option<&Fd>) -> Self {
        Self {
            fd: fd.map_or(-1, |fd| fd.0),
            events: Self::IN,
            revents: 0,
        }
    }

    pub(crate) fn or_writable(mut self, wanted: bool) -> Self {
        self.events |= if wanted { Self::OUT } else { 0 };
        self
    }

    /// Waits only for errors and hang-up, which are always reported.
    pub(crate) fn not_readable(mut self) -> Self {
        self.events &= !Self::IN;
        self
    }

    pub(crate) fn hung_up(&self) -> bool {
        const ERR: i16 = 8;
        const HUP: i16 = 16;
        self.revents & (ERR | HUP) != 0
    }

    /// Returns whether anything happened, including errors and hang-up.
    pub(crate) fn ready(&self) -> bool {
        self.revents != 0
    }
}

#[repr(C)]
pub(super) struct Timespec {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}
