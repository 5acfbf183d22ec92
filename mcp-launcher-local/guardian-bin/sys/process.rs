//! Processes: creating, becoming, ending, reaping.

use core::ffi::CStr;

use super::arch::nr;
use super::{Args, Errno, Fd, Fork, Pid, Reaped, Result, SIGCHLD, Signal, check, scalar, syscall, word};

const WNOHANG: usize = 1;
const WEXITED: usize = 4;
const WNOWAIT: usize = 0x0100_0000;
const WALL: usize = 0x4000_0000;

pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = scalar(nr::EXIT_GROUP, word(code), 0, 0, 0);
    }
}

/// Ends by this signal, as a process that it has ended, and without a core file.
pub(crate) fn die_by(signal: i32) -> ! {
    const PR_SET_DUMPABLE: usize = 4;
    let _ = scalar(nr::PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
    if let (Some(me), Ok(number @ 1..=64)) = (Pid::new(getpid()), u32::try_from(signal)) {
        super::signal::block_all_but(number);
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

/// Makes `pid`, or the caller, the leader of a process group of its own.
pub(crate) fn lead_group(pid: Option<Pid>) {
    let _ = scalar(nr::SETPGID, pid.map_or(0, |pid| word(pid.raw())), 0, 0, 0);
}

/// Orphaned descendants become children of the caller.
pub(crate) fn become_subreaper() -> Result<()> {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    scalar(nr::PRCTL, PR_SET_CHILD_SUBREAPER, 1, 0, 0).map(|_| ())
}

/// The caller is killed when its parent's (only) thread ends.
pub(crate) fn die_with_parent() -> Result<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    scalar(nr::PRCTL, PR_SET_PDEATHSIG, Signal::KILL.word(), 0, 0).map(|_| ())
}

/// The name that `ps` shows.
pub(crate) fn set_name(name: &CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the kernel reads at most 16 bytes and stops at the terminator.
    let _ = unsafe { syscall(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Creates a child with a copy of this address space.
pub(crate) fn fork() -> Result<Fork> {
    let child = scalar(nr::CLONE, SIGCHLD, 0, 0, 0)?;
    match (child, Pid::new(child as u32)) {
        (0, _) => Ok(Fork::Child),
        (_, Some(pid)) => Ok(Fork::Parent(pid)),
        (_, None) => Err(Errno::EINVAL),
    }
}

/// As [`fork`], with the child in the cgroup whose directory is open, from its first instant.
pub(crate) fn fork_into(cgroup: &Fd) -> Result<Fork> {
    // The same on every architecture.
    const CLONE3: usize = 435;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    const EXIT_SIGNAL: usize = 4;
    const CGROUP: usize = 10;
    // A `clone_args`, of eleven numbers.
    let mut args = [0_u64; CGROUP + 1];
    args[0] = CLONE_INTO_CGROUP;
    args[EXIT_SIGNAL] = SIGCHLD as u64;
    args[CGROUP] = u64::from(cgroup.0.cast_unsigned());
    // SAFETY: the kernel reads the numbers. No stack is given, and memory is not shared: the child goes on with a copy of this one.
    let child = unsafe {
        syscall(
            CLONE3,
            [args.as_ptr() as usize, size_of_val(&args), 0, 0, 0, 0],
        )
    };
    let child = check(child)?;
    match (child, Pid::new(child as u32)) {
        (0, _) => Ok(Fork::Child),
        (_, Some(pid)) => Ok(Fork::Parent(pid)),
        (_, None) => Err(Errno::EINVAL),
    }
}

/// As [`fork`], with a PID namespace for the child, whose first process it is. Says whether the child is who it was before: without the right to
/// do this, it is done in a user namespace, in which ids are still to be mapped.
pub(crate) fn fork_into_namespace() -> Result<(Fork, bool)> {
    const CLONE_NEWUSER: usize = 0x1000_0000;
    const CLONE_NEWPID: usize = 0x2000_0000;
    let clone = |flags: usize| match scalar(nr::CLONE, SIGCHLD | flags, 0, 0, 0)? {
        0 => Ok(Fork::Child),
        child => Pid::new(child as u32).map(Fork::Parent).ok_or(Errno::EINVAL),
    };
    match clone(CLONE_NEWPID) {
        Err(Errno::EPERM) => Ok((clone(CLONE_NEWPID | CLONE_NEWUSER)?, false)),
        other => Ok((other?, true)),
    }
}

/// Effective user and group.
pub(crate) fn effective_ids() -> (u32, u32) {
    let id = |number| scalar(number, 0, 0, 0, 0).unwrap_or(0) as u32;
    (id(nr::GETEUID), id(nr::GETEGID))
}

/// The result of `getppid` in a child of the first process of a namespace.
pub(crate) fn getpid_of_init() -> u32 {
    1
}

/// Becomes the program at `path`, with the arguments from `skip` on and the environment of `args`. Returns on failure only.
pub(crate) fn exec(path: &CStr, args: &Args, skip: usize) -> Errno {
    let (argv, envp) = args.vectors(skip);
    // SAFETY: `path` is terminated, and both vectors are the null-terminated ones that the kernel itself put on our stack.
    let result = unsafe {
        syscall(
            nr::EXECVE,
            [
                path.as_ptr() as usize,
                argv as usize,
                envp as usize,
                0,
                0,
                0,
            ],
        )
    };
    check(result).err().unwrap_or(Errno::EINVAL)
}

/// Takes from `pid` the right to create processes (which the privileged have regardless).
pub(crate) fn forbid_forks(pid: Pid) {
    const RLIMIT_NPROC: usize = 6;
    let none = [0_u64; 2];
    // SAFETY: the kernel reads two u64; the old limit is not asked for.
    let _ = unsafe {
        syscall(
            nr::PRLIMIT64,
            [
                word(pid.raw()),
                RLIMIT_NPROC,
                none.as_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// Reaps one child if one has exited.
pub(crate) fn reap() -> Reaped {
    wait4(usize::MAX)
}

/// Reaps this child if it has exited.
pub(crate) fn reap_one(pid: Pid) -> Reaped {
    wait4(word(pid.raw()))
}

/// A child that has exited, if there is one; it stays a zombie.
pub(crate) fn next_dead() -> Result<Option<Pid>> {
    const P_ALL: usize = 0;
    /// Where a `siginfo_t`, of 128 bytes, has the pid on 64-bit systems.
    const SI_PID: usize = 16 / 4;
    let mut info = [0_u32; 128 / 4];
    // SAFETY: the kernel writes one `siginfo_t` to `info`; no resource usage is asked for.
    let result = unsafe {
        syscall(
            nr::WAITID,
            [
                P_ALL,
                0,
                info.as_mut_ptr() as usize,
                WEXITED | WNOHANG | WNOWAIT | WALL,
                0,
                0,
            ],
        )
    };
    // Of none that has exited, the kernel says pid 0.
    check(result).map(|_| Pid::new(info[SI_PID]))
}

fn wait4(which: usize) -> Reaped {
    let mut status = 0_i32;
    // SAFETY: the kernel writes one i32 to `status`; no resource usage is asked for.
    let result = unsafe {
        syscall(
            nr::WAIT4,
            [
                which,
                &raw mut status as usize,
                WNOHANG | WALL,
                0,
                0,
                0,
            ],
        )
    };
    match check(result) {
        Ok(0) => Reaped::NoneYet,
        Ok(pid) => Reaped::Child(pid as u32, status),
        Err(Errno::ECHILD) => Reaped::NoChildren,
        Err(_) => Reaped::NoneYet,
    }
}

/// Whether `pid` is a child that the caller has not reaped: as long as it is, the number cannot become another process.
pub(crate) fn is_own_child(pid: Pid) -> bool {
    const P_PID: usize = 1;
    // The fourth word is the options; the third, where the details would go, may be null.
    scalar(
        nr::WAITID,
        P_PID,
        word(pid.raw()),
        0,
        WEXITED | WNOHANG | WNOWAIT | WALL,
    )
    .is_ok()
}
