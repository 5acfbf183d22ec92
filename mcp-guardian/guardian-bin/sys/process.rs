//! Creates, executes, ends and reaps processes.

use core::ffi::CStr;

use super::arch::nr;
use super::{Args, Errno, Fd, Fork, Pid, Reaped, Result, Signal, Signals, scalar, syscall, word};

const WNOHANG: usize = 1;
const WALL: usize = 0x4000_0000;
/// Options of `waitid` for a process that has exited and is not reaped.
const DEAD: usize = WEXITED | WNOHANG | WNOWAIT | WALL;
const WEXITED: usize = 4;
const WNOWAIT: usize = 0x0100_0000;

pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = scalar(nr::EXIT_GROUP, word(code), 0, 0, 0);
    }
}

/// Ends by this signal, without a core file.
pub(crate) fn die_by(signal: i32) -> ! {
    const PR_SET_DUMPABLE: usize = 4;
    let _ = scalar(nr::PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
    if let (Some(me), Ok(number @ 1..=64)) = (Pid::new(getpid()), u32::try_from(signal)) {
        super::block(Signals::all_but(number));
        let _ = scalar(nr::KILL, word(me.raw()), number as usize, 0, 0);
    }
    // The first process of a namespace cannot do that.
    exit(128 + signal)
}

pub(crate) fn getpid() -> u32 {
    scalar(nr::GETPID, 0, 0, 0, 0).unwrap_or(0) as u32
}

pub(crate) fn getppid() -> u32 {
    scalar(nr::GETPPID, 0, 0, 0, 0).unwrap_or(0) as u32
}

pub(crate) fn setsid() {
    let _ = scalar(nr::SETSID, 0, 0, 0, 0);
}

/// Detaches the caller, which must not lead a session, from its terminal. Its children have none.
pub(crate) fn leave_terminal() {
    // The same on every architecture.
    const TIOCNOTTY: usize = 0x5422;
    // Fails where there is no terminal, and never blocks.
    if let Ok(terminal) = super::open(c"/dev/tty") {
        let _ = scalar(nr::IOCTL, word(terminal.0), TIOCNOTTY, 0, 0);
    }
}

pub(crate) fn become_subreaper() -> Result<()> {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    scalar(nr::PRCTL, PR_SET_CHILD_SUBREAPER, 1, 0, 0).map(|_| ())
}

/// Gets the caller killed when its parent's only thread ends.
pub(crate) fn die_with_parent() -> Result<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    scalar(nr::PRCTL, PR_SET_PDEATHSIG, Signal::KILL.word(), 0, 0).map(|_| ())
}

pub(crate) fn set_name(name: &CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the kernel reads at most 16 bytes and stops at the terminator.
    let _ = unsafe { syscall(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

pub(crate) fn fork() -> Result<Fork> {
    cloned(scalar(nr::CLONE, Signal::CHLD.word(), 0, 0, 0)?)
}

pub(crate) fn fork_leader() -> Result<Fork> {
    fork().inspect(lead_group)
}

fn cloned(child: usize) -> Result<Fork> {
    match child {
        0 => Ok(Fork::Child),
        pid => Pid::new(pid as u32).map(Fork::Parent).ok_or(Errno::EINVAL),
    }
}

/// Makes the child lead a process group. Both sides do it, so that the group exists before any
/// request, and a signal to the host's group does not reach the child.
fn lead_group(fork: &Fork) {
    let pid = match fork {
        Fork::Child => 0,
        Fork::Parent(pid) => word(pid.raw()),
    };
    let _ = scalar(nr::SETPGID, pid, 0, 0, 0);
}

/// Forks with the child in this cgroup from the start, which `leads` a process group or stays in its parent's.
pub(crate) fn fork_into(cgroup: &Fd, leads: bool) -> Result<Fork> {
    // The same on every architecture.
    const CLONE3: usize = 435;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    const EXIT_SIGNAL: usize = 4;
    const CGROUP: usize = 10;
    let mut args = [0_u64; CGROUP + 1];
    args[0] = CLONE_INTO_CGROUP;
    args[EXIT_SIGNAL] = Signal::CHLD.word() as u64;
    args[CGROUP] = u64::from(cgroup.0.cast_unsigned());
    // SAFETY: the kernel reads the numbers. No stack is given, and memory is not shared: the child
    // continues with a copy of this one.
    let child = unsafe { syscall(CLONE3, [args.as_ptr() as usize, size_of_val(&args), 0, 0, 0, 0]) };
    let fork = cloned(child?)?;
    if leads {
        lead_group(&fork);
    }
    Ok(fork)
}

/// Does the same as [`fork_leader`], with the child as the first process of a new PID namespace. Returns
/// whether the child keeps its identity: without the privilege it gets a user namespace, in which
/// IDs must be mapped.
pub(crate) fn fork_into_namespace() -> Result<(Fork, bool)> {
    const CLONE_NEWUSER: usize = 0x1000_0000;
    const CLONE_NEWPID: usize = 0x2000_0000;
    let clone = |flags: usize| cloned(scalar(nr::CLONE, Signal::CHLD.word() | flags, 0, 0, 0)?).inspect(lead_group);
    match clone(CLONE_NEWPID) {
        Err(Errno::EPERM) => Ok((clone(CLONE_NEWPID | CLONE_NEWUSER)?, false)),
        other => Ok((other?, true)),
    }
}

pub(crate) fn effective_ids() -> (u32, u32) {
    let id = |number| scalar(number, 0, 0, 0, 0).unwrap_or(0) as u32;
    (id(nr::GETEUID), id(nr::GETEGID))
}

/// Executes the program at `path`, with the arguments from `skip` on and the environment of `args`.
/// Returns only on failure.
pub(crate) fn exec(path: &CStr, args: &Args, skip: usize) -> Errno {
    let (argv, envp) = args.vectors(skip);
    // SAFETY: `path` is terminated, and both vectors are the null-terminated ones that the kernel itself put on our stack.
    let result = unsafe { syscall(nr::EXECVE, [path.as_ptr() as usize, argv as usize, envp as usize, 0, 0, 0]) };
    result.err().unwrap_or(Errno::EINVAL)
}

/// Forbids `pid` to create processes, unless it is privileged.
pub(crate) fn forbid_forks(pid: Pid) {
    const RLIMIT_NPROC: usize = 6;
    let none = [0_u64; 2];
    // SAFETY: the kernel reads two u64; the old limit is not requested.
    let _ = unsafe { syscall(nr::PRLIMIT64, [word(pid.raw()), RLIMIT_NPROC, none.as_ptr() as usize, 0, 0, 0]) };
}

pub(crate) fn reap() -> Reaped {
    wait4(usize::MAX)
}

pub(crate) fn reap_one(pid: Pid) -> Reaped {
    wait4(word(pid.raw()))
}

pub(crate) fn next_dead() -> Result<Option<Pid>> {
    const P_ALL: usize = 0;
    /// Offset of the pid in a `siginfo_t` of 128 bytes on 64-bit systems.
    const SI_PID: usize = 16 / 4;
    let mut info = [0_u32; 128 / 4];
    // SAFETY: the kernel writes one `siginfo_t` to `info`; no resource usage is requested.
    let result = unsafe { syscall(nr::WAITID, [P_ALL, 0, info.as_mut_ptr() as usize, DEAD, 0, 0]) };
    result.map(|_| Pid::new(info[SI_PID]))
}

fn wait4(which: usize) -> Reaped {
    let mut status = 0_i32;
    // SAFETY: the kernel writes one i32 to `status`; no resource usage is requested.
    let result = unsafe { syscall(nr::WAIT4, [which, &raw mut status as usize, WNOHANG | WALL, 0, 0, 0]) };
    match result {
        Ok(0) => Reaped::NoneYet,
        Ok(pid) => Reaped::Child(pid as u32, status),
        Err(Errno::ECHILD) => Reaped::NoChildren,
        Err(_) => Reaped::NoneYet,
    }
}

/// Returns whether `pid` is our unreaped child, so that the pid is reserved.
pub(crate) fn is_own_child(pid: Pid) -> bool {
    const P_PID: usize = 1;
    // The fourth word is the options; the third, for details, may be null.
    scalar(nr::WAITID, P_PID, word(pid.raw()), 0, DEAD).is_ok()
}
