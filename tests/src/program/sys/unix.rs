//! Processes and signals.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use std::{io, process};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::{self, ForkResult, alarm, fork};
#[cfg(target_os = "linux")]
use nix::{
    sys::signal::{SigEvent, SigevNotify},
    sys::timer::{Expiration, Timer, TimerSetTimeFlags},
    time::ClockId,
};

use crate::program::exit;

/// Runs `child` in a new process, which exits when `child` returns.
///
/// To be called before any thread is started: see the safety comment.
pub(crate) fn fork_into(lifetime: Duration, child: impl FnOnce()) {
    // SAFETY: the fixture forks only while it has a single thread (threads are
    // started by `Alive::answer_in_background`, after all forks), so the child
    // may allocate and run any code.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { .. }) => {}
        Ok(ForkResult::Child) => {
            // Alarms are not inherited by fork.
            limit_lifetime(lifetime);
            child();
            process::exit(0)
        }
        Err(error) => exit::refused("fork", error),
    }
}

/// The kernel ends this process after `lifetime`, also across an exec.
pub(crate) fn limit_lifetime(lifetime: Duration) {
    if let Ok(seconds @ 1..) = u32::try_from(lifetime.as_secs()) {
        alarm::set(seconds);
    }
}

/// Standard output, without a buffer.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Lets an exec inherit `fd`.
pub(crate) fn inherit_on_exec(fd: impl AsFd) {
    if let Err(error) = fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())) {
        exit::refused("fcntl(F_SETFD)", error);
    }
}

/// Stops this process, as a debugger or a careless operator would.
///
/// A stopped process hears neither its observer nor its alarm. So the kernel kills it
/// after `lifetime`, if nobody lets it go on before.
pub(crate) fn stop_self(lifetime: Duration) {
    #[cfg(target_os = "linux")]
    let _limit = match kill_after(lifetime) {
        Ok(timer) => timer,
        Err(error) => exit::refused("timer_create", error),
    };
    if let Err(error) = raise(Signal::SIGSTOP) {
        exit::refused("SIGSTOP", error);
    }
}

#[cfg(target_os = "linux")]
fn kill_after(lifetime: Duration) -> nix::Result<Timer> {
    let mut timer = Timer::new(
        ClockId::CLOCK_MONOTONIC,
        SigEvent::new(SigevNotify::SigevSignal {
            signal: Signal::SIGKILL,
            si_value: 0,
        }),
    )?;
    timer.set(
        Expiration::OneShot(lifetime.into()),
        TimerSetTimeFlags::empty(),
    )?;
    Ok(timer)
}

/// Points stdin and stderr, and stdout unless it is kept, at nothing.
pub(crate) fn detach_stdio(keep_stdout: bool) {
    // Without a /dev/null there is nothing better than to keep what we have.
    let Ok(null) = fs::File::options().read(true).write(true).open("/dev/null") else {
        return;
    };
    let _ = unistd::dup2_stdin(&null);
    let _ = unistd::dup2_stderr(&null);
    if !keep_stdout {
        let _ = unistd::dup2_stdout(&null);
    }
}

/// Closes every descriptor from 3 on, but `keep`, as a daemon does.
pub(crate) fn close_all_but(keep: BorrowedFd<'_>) {
    /// The fixture opens a handful; what a host leaks into it is low as well.
    const HIGHEST: RawFd = 1024;
    for fd in (3..HIGHEST).filter(|fd| *fd != keep.as_raw_fd()) {
        // SAFETY: the caller is a freshly forked daemon that has dropped or
        // forgotten every owner of a descriptor other than `keep`.
        let _ = unsafe { nix::libc::close(fd) };
    }
}

/// Ended children leave no zombies.
pub(crate) fn reap_children_automatically() {
    set_handler(Signal::SIGCHLD, SigHandler::SigIgn);
}

static OBSERVER: AtomicI32 = AtomicI32::new(-1);
static IGNORE_SIGTERM: AtomicBool = AtomicBool::new(false);

/// Tells the observer of a SIGTERM, and then dies of it or does not.
///
/// A handler and not `SIG_IGN`, because a test wants to know that the signal
/// was sent.
pub(crate) fn report_sigterm(ignore: bool) {
    IGNORE_SIGTERM.store(ignore, Ordering::SeqCst);
    set_handler(Signal::SIGTERM, SigHandler::Handler(on_sigterm));
}

/// Whom [`report_sigterm`] tells.
pub(crate) fn report_sigterm_to(fd: RawFd) {
    OBSERVER.store(fd, Ordering::SeqCst);
}

extern "C" fn on_sigterm(signal: i32) {
    const LINE: &[u8] = b"event sigterm\n";
    let fd = OBSERVER.load(Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: write(2) is async-signal-safe, and the buffer is static.
        let _ = unsafe { nix::libc::write(fd, LINE.as_ptr().cast(), LINE.len()) };
    }
    if !IGNORE_SIGTERM.load(Ordering::SeqCst) {
        if process::id() == 1 {
            // The kernel shields an init from its own signals.
            // SAFETY: _exit(2) is async-signal-safe.
            unsafe { nix::libc::_exit(128 + signal) };
        }
        // SAFETY: signal(2) is async-signal-safe; the disposition is valid.
        let _ = unsafe { nix::libc::signal(signal, nix::libc::SIG_DFL) };
        // SAFETY: raise(3) is async-signal-safe; it takes effect on return.
        let _ = unsafe { nix::libc::raise(signal) };
    }
}

fn set_handler(signal: Signal, handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the only handler is `on_sigterm`, which is async-signal-safe.
    if let Err(error) = unsafe { sigaction(signal, &action) } {
        exit::refused("sigaction", error);
    }
}

/// `count` words of zeroes that all later children share with this process.
pub(crate) fn shared_words(count: usize) -> &'static [AtomicU64] {
    let bytes = NonZeroUsize::new(count * size_of::<AtomicU64>()).unwrap_or(NonZeroUsize::MIN);
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let start = match unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_SHARED) } {
        Ok(start) => start.cast::<AtomicU64>(),
        Err(error) => exit::refused("mmap", error),
    };
    // SAFETY: the mapping is page aligned, zeroed, at least `count` words long
    // and never unmapped; all access to it is atomic.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), count) }
}
