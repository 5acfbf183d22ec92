//! Linux: pidfds, and `/proc` to put names to processes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use tokio::io::unix::AsyncFd;

use mcp_lifecycle_core::{ExitStatus, Reach};

use super::stat::Stat;
use super::watch::{self, Interest};
use super::{Member, Pid, Signal, unix};
/// What ends a process group when the host dies: here that is the guardian's
/// work, so whoever asks for a process group alone gets no more than that.
pub(crate) const HOST_DEATH: (&str, Reach) = ("process group", Reach::Nothing);

/// A child of ours that leads a process group, held by a pidfd: the number
/// behind it cannot come to mean another process.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

/// Whether a child could be held and watched, asked before there is one.
pub(crate) fn can_lead() -> io::Result<()> {
    watch::start()?;
    // Found out while there are descriptors to ask with.
    group_flag_works();
    let own = Pid::new(std::process::id().into());
    // As init of a PID namespace we cannot ask.
    match own.map(pidfd_open) {
        Some(Err(error)) if is_refusal(&error) => Err(io::Error::new(
            error.kind(),
            format!(
                "pidfd_open is refused ({error}): it takes Linux 5.3, and a sandbox (seccomp) \
                 that permits it"
            ),
        )),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS)
    )
}

impl Leader {
    /// Takes hold of a child that nobody has reaped.
    pub(crate) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            pidfd: Arc::new(pidfd_open(pid)?),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has; it stays a zombie.
    pub(crate) fn peek(&self) -> io::Result<Option<ExitStatus>> {
        Ok(peek(Id::PIDFd(self.pidfd.as_fd()))?)
    }

    /// Reaps it, if it has ended.
    pub(crate) fn reap(&self) {
        if let Err(error) = reap(Id::PIDFd(self.pidfd.as_fd())) {
            tracing::debug!(pid = self.pid.as_u32(), %error, "a server could not be reaped");
        }
    }

    /// Whether the group can be reached through the pidfd, also after its
    /// leader was reaped.
    pub(crate) fn reaches_group(&self) -> bool {
        group_flag_works()
    }

    /// Signals the whole group. `reaped`: the leader is gone from the process
    /// table, so its number may mean somebody else's group by now.
    pub(crate) fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
        super::not_forked()?;
        if !self.reaches_group() {
            if reaped {
                return Ok(());
            }
            return Ok(unix::signal_group(self.pid, signal)?);
        }
        let send = |number| match pidfd_signal_group(&self.pidfd, number) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(io::Error::from(errno)),
        };
        let sent = match signal {
            Signal::Terminate => send(libc::SIGTERM).and_then(|()| send(libc::SIGCONT)),
            Signal::Kill => send(libc::SIGKILL),
        };
        // The leader's number is the group's for as long as it is not reaped.
        match sent {
            Err(_) if !reaped => Ok(unix::signal_group(self.pid, signal)?),
            sent => sent,
        }
    }

    /// Whether nobody at all is left in the group. Asked after reaping.
    pub(crate) fn group_is_empty(&self) -> bool {
        if self.reaches_group() {
            pidfd_signal_group(&self.pidfd, 0) == Err(Errno::ESRCH)
        } else {
            unix::group_is_empty(self.pid)
        }
    }

    /// Whether somebody is in the group, and everybody in it another user's.
    /// Asked after reaping.
    pub(crate) fn group_is_anothers(&self) -> bool {
        let asked = match self.reaches_group() {
            true => pidfd_signal_group(&self.pidfd, 0),
            false => killpg(self.pid.raw(), None),
        };
        asked == Err(Errno::EPERM)
    }

    /// Calls `on_exit` on the watcher's thread when the leader has ended.
    pub(crate) fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pidfd: Arc<OwnedFd> = Arc::clone(&self.pidfd);
        watch::readable(pidfd, once(on_exit)).map(drop)
    }

    /// The exit as an event of the current runtime, for tasks that wait for it.
    pub(crate) fn exit_event(&self) -> io::Result<ExitEvent> {
        let pidfd = PidFd(Arc::clone(&self.pidfd));
        // SAFETY: the descriptor is owned by the `Arc` in `pidfd`, which stays as
        // it is until the `AsyncFd` is dropped: it is open for as long, and is
        // always the same.
        let event =
            unsafe { AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE) };
        Ok(ExitEvent(event?))
    }
}

/// The exit of a process as an event of one runtime.
///
/// The watcher's thread sees it as well, whatever happens to the runtime. But
/// where a task waits, its own worker sees it without being woken by another
/// thread first, and that is a third of the time an end takes.
#[derive(Debug)]
pub(crate) struct ExitEvent(AsyncFd<PidFd>);

#[derive(Debug)]
struct PidFd(Arc<OwnedFd>);

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl ExitEvent {
    /// Completes when the process has exited; never, once the runtime has gone.
    pub(crate) async fn happened(&self) {
        if self.0.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Calls `on_exit` when a process that is not our child has ended, or at once
/// if it is not what it was: `still` is asked after the process was pinned.
pub(crate) fn watch_process(
    pid: Pid,
    still: impl FnOnce() -> bool,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let pidfd = match pidfd_open(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
            on_exit();
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if !still() {
        on_exit();
        return Ok(());
    }
    watch::readable(Arc::new(pidfd), once(on_exit)).map(drop)
}

fn once(on_exit: impl FnOnce() + Send + 'static) -> impl FnMut() -> Interest + Send + 'static {
    let mut on_exit = Some(on_exit);
    move || {
        if let Some(on_exit) = on_exit.take() {
            on_exit();
        }
        Interest::Done
    }
}

/// The live members of a process group, by `/proc`; zombies do not count.
pub(crate) fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for pid in numbers_in_proc()? {
        let stat = match Stat::read(pid) {
            // Hidden from us, as only other users' are.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            stat => stat?,
        };
        if let Some(pid) = Pid::new(pid.into())
            && let Some(stat) = stat
            && stat.group == group.as_u32()
            && !stat.is_dead()
        {
            members.push(Member {
                pid,
                name: stat.name,
            });
        }
    }
    Ok(members)
}

/// The number of every process that `/proc` shows.
pub(crate) fn numbers_in_proc() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// A process as `/proc` shows it, whoever's it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
    pub(crate) name: String,
    pub(crate) state: ProcessState,
}

/// What a process is doing, as far as its end is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Live,
    /// By a signal, until SIGCONT or SIGKILL.
    Stopped,
    /// By a tracer, until that lets go or SIGKILL.
    Traced,
    /// On its way out: it runs no instruction of its program any more.
    Exiting,
    /// All of it has ended; it is not reaped yet.
    Dead,
}

/// What is known of one process; `None` if it has gone, or cannot be looked at.
pub(crate) fn see(pid: u32) -> Option<Seen> {
    look_at(pid).ok()?
}

/// What is known of one process; `None` if it has gone.
pub(crate) fn look_at(pid: u32) -> io::Result<Option<Seen>> {
    Ok(Stat::read(pid)?.map(|stat| Seen {
        pid,
        parent: stat.parent,
        start_time: stat.start_time,
        state: match stat.state {
            _ if stat.is_dead() => ProcessState::Dead,
            _ if stat.is_exiting() => ProcessState::Exiting,
            'T' => ProcessState::Stopped,
            't' => ProcessState::Traced,
            _ => ProcessState::Live,
        },
        name: stat.name,
    }))
}

/// Whether the main thread of a process has ended while others go on.
pub(crate) fn is_headless(pid: u32) -> bool {
    read_stat(pid).is_some_and(|stat| stat.state == 'Z' && !stat.is_dead())
}

/// Every process that can be looked at.
pub(crate) fn see_all() -> io::Result<Vec<Seen>> {
    Ok(numbers_in_proc()?.into_iter().filter_map(see).collect())
}

/// The cgroup of version 2 that a process is in, or has ended in.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    path.map(str::to_owned)
}

/// Who traces a process: while it does, nobody else can reap it.
pub(crate) fn tracer_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer?.trim().parse().ok().filter(|&tracer| tracer > 0)
}

/// When a process started, in clock ticks since boot.
pub(crate) fn start_time(pid: Pid) -> Option<u64> {
    start_time_of(pid.as_u32())
}

/// Takes hold of a process that need not be ours: whoever does must then make
/// sure that it is the one that was meant.
pub(crate) fn hold(pid: Pid) -> io::Result<OwnedFd> {
    pidfd_open(pid)
}

/// SIGKILL to a process that is held.
pub(crate) fn kill_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal(pidfd, libc::SIGKILL, 0)?)
}

/// SIGCONT to a process that is held.
pub(crate) fn continue_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal(pidfd, libc::SIGCONT, 0)?)
}

/// Whether there is such a process, or thread, and we might signal it.
pub(crate) fn may_signal(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.is_some_and(|pid| kill(nix::unistd::Pid::from_raw(pid), None).is_ok())
}

/// Whether that number is a process's that has not ended, and not only one of
/// its threads'.
pub(crate) fn is_running(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid.into()) else {
        return false;
    };
    match pidfd_open(pid) {
        Ok(pidfd) => {
            let mut exit = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
            poll(&mut exit, PollTimeout::ZERO) != Ok(1)
        }
        // Kernels differ in what they say of a thread. Any other error leaves it
        // open, and then it may be one.
        Err(error) => !matches!(
            error.raw_os_error(),
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)
        ),
    }
}

/// What a process calls itself.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    read_stat(pid).map(|stat| stat.name)
}

/// As [`start_time`], of a process that nobody means to signal: a host may be
/// the first process of its container.
pub(crate) fn start_time_of(pid: u32) -> Option<u64> {
    read_stat(pid).map(|stat| stat.start_time)
}

/// When this process started, also where `/proc` is that of an outer PID
/// namespace and knows it by another number.
pub(crate) fn own_start_time() -> Option<u64> {
    let own = fs::read_link("/proc/self").ok()?;
    start_time_of(own.to_str()?.parse().ok()?)
}

/// Whether this error of exec says that the file cannot be executed.
pub(crate) fn is_not_executable(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ELIBBAD
    )
}

/// Sets how many bytes a pipe holds.
pub(crate) fn set_pipe_size(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(bytes))?;
    Ok(())
}

/// Which boot of the machine this is.
pub(crate) fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim_end().to_owned())
}

/// What `/proc/PID/stat` says now.
fn read_stat(pid: u32) -> Option<Stat> {
    Stat::read(pid).ok()?
}

/// The exit status of a child that has ended, leaving it a zombie.
fn peek(id: Id<'_>) -> Result<Option<ExitStatus>, Errno> {
    wait(
        id,
        WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT,
    )
}

/// Whether that number is our child's, which nobody has reaped.
pub(crate) fn is_child(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid.raw()), flags) != Err(Errno::ECHILD)
}

/// Reaps a child that has ended.
fn reap(id: Id<'_>) -> Result<Option<ExitStatus>, Errno> {
    wait(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG)
}

fn wait(id: Id<'_>, flags: WaitPidFlag) -> Result<Option<ExitStatus>, Errno> {
    match waitid(id, flags) {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::Code(code))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::Signal(signal as i32))),
        Ok(_) => Ok(None),
        // Somebody else reaped our child: ended it has, how nobody knows.
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}

fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    let fd = Errno::result(fd)? as i32;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    // It is close-on-exec by definition (pidfd_open(2)).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pidfd_signal_group(pidfd: &OwnedFd, signal: i32) -> Result<(), Errno> {
    pidfd_signal(pidfd, signal, libc::PIDFD_SIGNAL_PROCESS_GROUP)
}

fn pidfd_signal(pidfd: &OwnedFd, signal: i32, flags: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and a null siginfo is allowed
    // (pidfd_send_signal(2)): the kernel fills in what kill(2) would.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    Errno::result(result).map(drop)
}

/// Whether the kernel knows `PIDFD_SIGNAL_PROCESS_GROUP` (Linux 6.9), found out
/// by asking it to send nothing to our own group.
fn group_flag_works() -> bool {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    static WORKS: AtomicBool = AtomicBool::new(false);
    if !KNOWN.load(Ordering::Acquire) {
        let own = Pid::new(i64::from(nix::unistd::getpid().as_raw()));
        let works = match own.map(pidfd_open) {
            // ESRCH: we do not lead a group, but the flag was understood.
            Some(Ok(own)) => matches!(pidfd_signal_group(&own, 0), Ok(()) | Err(Errno::ESRCH)),
            // As init of a PID namespace we cannot ask; the other way is right too.
            // Without a descriptor we cannot ask now.
            Some(Err(error)) if !is_refusal(&error) => return false,
            _ => false,
        };
        WORKS.store(works, Ordering::Release);
        KNOWN.store(true, Ordering::Release);
    }
    WORKS.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sees_oneself() {
        let own = see(std::process::id()).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid().as_raw() as u32);
        assert_eq!(own.state, ProcessState::Live);
        assert_eq!(Some(own.start_time), start_time_of(own.pid));
        assert!(see_all().unwrap().contains(&own));
        assert_eq!(tracer_of(own.pid), None);
    }

    #[test]
    fn dangerous_pids_do_not_exist() {
        for pid in [-1, 0, 1, i64::MAX] {
            assert_eq!(Pid::new(pid), None);
        }
    }
}
