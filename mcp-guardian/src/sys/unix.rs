//! The calls that every Unix has.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeReader, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl};
use nix::sys::signal::killpg;
use nix::unistd::{AccessFlags, faccessat, getpgid};

use super::{Pid, Signal, uninterrupted};
use crate::exit::ExitStatus;

/// The search path where the server's environment has no `PATH`, as of a shell.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns whether a name is not looked up in `PATH`.
pub fn names_a_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Returns the files that a name may mean: here the one of this name.
pub fn spellings(path: &Path, _: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    Some(path.to_owned())
}

/// Returns a variable of an environment.
pub fn variable<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    env.get(OsStr::new(name)).map(OsString::as_os_str)
}

/// Returns the limit that was reached by this error.
pub fn limit_of(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EAGAIN => {
            "processes and threads of this user or control group (RLIMIT_NPROC, pids.max)"
        }
        libc::EMFILE => "open files of the host (RLIMIT_NOFILE)",
        libc::ENFILE => "open files of this machine (fs.file-max)",
        libc::ENOMEM => "memory",
        libc::E2BIG => "size of arguments and environment (ARG_MAX)",
        _ => return None,
    })
}

/// Returns whether this process may execute the file, with its effective ids.
pub fn may_execute(path: &Path) -> bool {
    may(path, AccessFlags::X_OK)
}

/// Returns whether this process may write to the file, with its effective ids.
pub fn may_write(path: &Path) -> bool {
    may(path, AccessFlags::W_OK)
}

fn may(path: &Path, access: AccessFlags) -> bool {
    faccessat(nix::fcntl::AT_FDCWD, path, access, AtFlags::AT_EACCESS).is_ok()
}

/// Closes all descriptors but the standard streams and these.
pub fn close_all_but(kept: &[RawFd]) {
    const LISTED: &str = match cfg!(target_os = "linux") {
        true => "/proc/thread-self/fd",
        false => "/dev/fd",
    };
    let Ok(entries) = fs::read_dir(LISTED) else {
        return;
    };
    let numbers: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let others = numbers.into_iter().filter(|fd| *fd > 2);
    for fd in others.filter(|fd| !kept.contains(fd)) {
        let _ = nix::unistd::close(fd);
    }
}

/// Installs a handler for every signal but those that have none, faults, which would repeat for
/// ever, and `left_alone`. Exec resets handlers, but neither masks nor ignored signals.
///
/// # Safety
///
/// The handler may run at any time.
pub unsafe fn handle_signals(handler: extern "C" fn(i32), left_alone: &[i32]) -> Result<(), Errno> {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGTRAP};
    const NEVER: [i32; 7] = [SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP];
    // SAFETY: zeroes are valid: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Restarts interrupted calls.
    action.sa_flags = libc::SA_RESTART;
    let numbers = 1..32;
    #[cfg(target_os = "linux")]
    let numbers = numbers.chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    let left_alone = |number: &i32| NEVER.contains(number) || left_alone.contains(number);
    for number in numbers.filter(|number| !left_alone(number)) {
        // SAFETY: the caller answers for the handler; the old action is not requested.
        let done = unsafe { libc::sigaction(number, &raw const action, ptr::null_mut()) };
        Errno::result(done)?;
    }
    Ok(())
}

/// The writing end of the pipe with the numbers of signals.
static NOTES: AtomicI32 = AtomicI32::new(-1);

/// Writes the number of every signal to a pipe, but of those that stop and continue.
pub(super) fn note_signals() -> io::Result<PipeReader> {
    use libc::{SIGCONT, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};
    extern "C" fn note(number: i32) {
        let byte = number as u8;
        // SAFETY: `write` may be called in a handler, and the pipe is open for ever.
        let _ = unsafe { libc::write(NOTES.load(Ordering::Relaxed), (&raw const byte).cast(), 1) };
    }
    let (notes, writer) = io::pipe()?;
    // A handler must not block.
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    NOTES.store(writer.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: the handler makes one system call.
    unsafe { handle_signals(note, &[SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE]) }?;
    Ok(notes)
}

/// Returns the number of the next noted signal; for a pipe that is ready.
pub(super) fn next_signal(mut notes: &PipeReader) -> Option<i32> {
    let mut number = [0];
    let len = notes.read(&mut number).ok()?;
    (len == 1).then_some(number[0].into())
}

/// Returns the exit status of a child that has ended, and leaves it a zombie.
pub fn peek(pid: Pid) -> io::Result<Option<ExitStatus>> {
    Ok(wait(pid, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?)
}

pub(super) fn wait(pid: Pid, flags: libc::c_int) -> Result<Option<ExitStatus>, Errno> {
    or_lost(wait_for(libc::P_PID, pid.as_u32() as libc::id_t, flags))
}

/// Returns how a child has ended, if it has. nix's function fails for real-time signals.
pub(super) fn wait_for(
    kind: libc::idtype_t,
    id: libc::id_t,
    flags: libc::c_int,
) -> Result<Option<process::ExitStatus>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    uninterrupted(|| {
        // SAFETY: `info` has room for what is written, and the rest are numbers.
        Errno::result(unsafe { libc::waitid(kind, id, info.as_mut_ptr(), flags) })
    })?;
    // SAFETY: zeroes are valid for it, and so is what the kernel wrote.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills in the fields of SIGCHLD, or leaves the zeroes.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    let ended = process::ExitStatus::from_raw;
    Ok(match (pid, info.si_code) {
        (0, _) => None,
        (_, libc::CLD_EXITED) => Some(ended((status & 0xff) << 8)),
        (_, libc::CLD_KILLED) => Some(ended(status)),
        (_, libc::CLD_DUMPED) => Some(ended(status | 0x80)),
        _ => None,
    })
}

/// Returns the status; of a child that was reaped elsewhere, it is lost.
pub(super) fn or_lost(
    waited: Result<Option<process::ExitStatus>, Errno>,
) -> Result<Option<ExitStatus>, Errno> {
    match waited {
        Ok(ended) => Ok(ended.map(Into::into)),
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}

/// Signals a process group by number. Only sound while the number cannot be reused: its leader is
/// our child and not reaped.
pub(super) fn signal_group(leader: Pid, signal: Signal) -> Result<(), Errno> {
    let mut all = signal.all().iter();
    all.try_for_each(|signal| match killpg(leader.raw(), *signal) {
        // macOS returns EPERM when only zombies are left in the group.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(Errno::EPERM) if cfg!(target_os = "macos") => Ok(()),
        Err(errno) => Err(errno),
    })
}

/// Returns whether the group is empty, without even a zombie; `false` if the number was reused.
pub(super) fn group_is_empty(leader: Pid) -> bool {
    killpg(leader.raw(), None) == Err(Errno::ESRCH)
}

/// Returns whether a process is in a group, alive or a zombie. Never blocks.
pub fn is_in_group(pid: Pid, group: Pid) -> bool {
    getpgid(Some(pid.raw())) == Ok(group.raw())
}

/// Returns whether SIGCHLD is ignored: the kernel reaps children by itself, and reuses their pids.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only held children are asked for")
)]
pub(super) fn children_vanish() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and there is room for what is written.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are valid for it, and so is what the system wrote.
    let action = unsafe { action.assume_init() };
    asked != 0 || action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}
