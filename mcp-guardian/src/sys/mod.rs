//! All system calls of Unix, one directory per kind of system with the same functions.

use std::io;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(not(target_os = "linux"))]
#[path = "other/mod.rs"]
mod os;

#[cfg(any(not(target_os = "linux"), test))]
pub mod lifeline;
#[cfg(any(not(target_os = "linux"), test))]
mod listing;

#[cfg(target_os = "linux")]
pub mod reserve;
mod unix;
#[cfg(target_os = "linux")]
pub mod watch;

pub use os::*;
pub use unix::*;

/// Returns the end of a time limit from outside, of 49 days at most, as for a guardian.
#[cfg(target_os = "linux")]
pub fn deadline(limit: std::time::Duration) -> std::time::Instant {
    const LONGEST: std::time::Duration = std::time::Duration::from_millis(u32::MAX as u64);
    std::time::Instant::now() + limit.min(LONGEST)
}

/// The process that owns the servers: the first that launched one.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes this process the owner of servers, unless it was forked from the owner.
pub fn own_servers() -> io::Result<()> {
    let claimed = OWNER.compare_exchange(0, process::id(), Ordering::Relaxed, Ordering::Relaxed);
    claimed.map(drop).or_else(|_| not_forked())
}

/// Returns an error in a process that was forked from the owner of servers and has executed no
/// program since: it has all data of this crate, and none of its threads.
pub fn not_forked() -> io::Result<()> {
    match OWNER.load(Ordering::Relaxed) {
        owner if owner == 0 || owner == process::id() => Ok(()),
        owner => Err(io::Error::other(format!(
            "this process is a fork of process {owner}, which launches servers and owns them; \
             only a program that it executes can launch servers of its own"
        ))),
    }
}

/// Returns whether there was no descriptor or no memory: such an error must not be remembered.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    )
}

/// Runs foreign code, and contains its panics: a subscriber of `tracing` must not stop the thread
/// that waits for all servers, or the undoing of a launch.
pub fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

/// Reports an event as `tracing` does, [shielded](sys::shielded).
#[doc(hidden)]
#[macro_export]
macro_rules! logged {
    ($level:ident, $($event:tt)*) => { $crate::sys::shielded(|| tracing::$level!($($event)*)) };
}

/// Makes a system call, and repeats it while a signal interrupts it, or a stop and a SIGCONT.
pub fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// An event for a process that waits for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The number of a signal.
    Signal(i32),
    InputEnded,
    HostGone,
}

/// A process that is, or was, a member of a server's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub pid: Pid,
    pub name: String,
}

/// The id of a process that may be signalled: never 0, 1 or negative, which mean "my group", "init"
/// and "every process".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(i32);

impl Pid {
    pub fn new(pid: i64) -> Option<Self> {
        i32::try_from(pid).ok().filter(|pid| *pid > 1).map(Self)
    }

    pub fn as_u32(self) -> u32 {
        self.0.unsigned_abs()
    }

    pub(crate) fn raw(self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.0)
    }
}

/// A signal that this crate sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Asks the process to end. Sent with SIGCONT: a stopped process handles no other signal.
    Terminate,
    Kill,
}

impl Signal {
    fn all(self) -> &'static [nix::sys::signal::Signal] {
        use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGTERM};
        match self {
            Self::Terminate => &[SIGTERM, SIGCONT],
            Self::Kill => &[SIGKILL],
        }
    }
}
