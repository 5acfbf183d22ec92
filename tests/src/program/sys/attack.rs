//! The system calls of the soak's acts.

use std::convert::Infallible;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use nix::libc;
use nix::unistd::{Gid, Uid, getppid, setgid, setuid};

use crate::program::exit;

/// Ends the calling thread and leaves the others: the process has no main
/// thread from here on.
pub(crate) fn exit_main_thread() -> Infallible {
    // SAFETY: exit(2) of one thread; what it holds stays allocated for ever.
    let _ = unsafe { libc::syscall(libc::SYS_exit, 0) };
    exit::refused("exit", "it returned")
}

/// Hides this process's environment and descriptors from its own user.
pub(crate) fn forbid_dumps() {
    set_dumpable(0);
}

fn set_dumpable(value: libc::c_ulong) {
    // SAFETY: takes an integer and touches no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, value) };
}

/// Lives on when the guardian dies.
pub(crate) fn outlive_parent() {
    // SAFETY: takes an integer and touches no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0_u64) };
}

/// Gives up root for good.
pub(crate) fn become_nobody() {
    const NOBODY: u32 = 65534;
    if setgid(Gid::from_raw(NOBODY)).is_err() || setuid(Uid::from_raw(NOBODY)).is_err() {
        exit::refused("setuid", "not root");
    }
}

/// The next child is the first process of a new PID namespace.
pub(crate) fn new_pid_namespace() {
    let flags = match Uid::effective().is_root() {
        true => libc::CLONE_NEWPID,
        false => libc::CLONE_NEWPID | libc::CLONE_NEWUSER,
    };
    // SAFETY: the process has one thread; nothing of ours depends on either.
    if unsafe { libc::unshare(flags) } != 0 {
        exit::refused("unshare", std::io::Error::last_os_error());
    }
    // The change of credentials took this away, which is another act.
    set_dumpable(1);
}

/// The next children are in the PID namespace that the children of `pid` are in.
pub(crate) fn next_child_in_namespace_of(pid: u64) {
    let mut names = vec!["user", "pid_for_children"];
    if Uid::effective().is_root() {
        names.remove(0);
    }
    for name in names {
        let namespace = match fs::File::open(format!("/proc/{pid}/ns/{name}")) {
            Ok(namespace) => namespace,
            Err(error) => exit::refused("the foreign namespace", error),
        };
        // SAFETY: the process has one thread; the descriptor is open.
        if unsafe { libc::setns(namespace.as_raw_fd(), 0) } != 0 {
            exit::refused("setns", std::io::Error::last_os_error());
        }
    }
    set_dumpable(1);
}

/// Moves this process into a cgroup of this name inside of its server's.
pub(crate) fn enter_cgroup(name: &str) {
    if let Some(leaf) = leaf() {
        move_to(leaf.join(name));
    }
}

/// Moves this process out of its server's cgroup, where it may.
pub(crate) fn leave_cgroup() {
    if let Some(around) = leaf().as_deref().and_then(|leaf| leaf.parent()?.parent()) {
        move_to(around.join("elsewhere"));
    }
}

fn move_to(cgroup: PathBuf) {
    let _ = fs::create_dir(&cgroup);
    if let Err(error) = fs::write(cgroup.join("cgroup.procs"), "0") {
        exit::refused("another cgroup", error);
    }
}

/// The directory of the server's own cgroup, if it has one.
fn leaf() -> Option<PathBuf> {
    let all = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = all.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let name = path.rsplit('/').next()?;
    name.strip_prefix("mcp-").filter(|id| id.len() == 32)?;
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let mut leaves = roots.iter().map(|root| root.join(path));
    leaves.find(|leaf| leaf.join("cgroup.procs").exists())
}

/// No output from here on.
pub(crate) fn close_stdout() {
    // SAFETY: nobody owns the number: `Output` duplicates it, and later.
    let _ = unsafe { libc::close(1) };
}

/// Aborts after a while. Nothing may fork after this.
pub(crate) fn crash_after(time: Duration) {
    thread::spawn(move || {
        thread::sleep(time);
        std::process::abort();
    });
}

/// The guardian of this server, and nobody else who may get its number.
pub(crate) struct Parent(OwnedFd);

impl Parent {
    /// `None` where the parent is no guardian.
    pub(crate) fn hold() -> Option<Self> {
        let pid = getppid();
        // SAFETY: takes integers and touches no memory.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: just opened, and owned by nobody else.
        let held = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (getppid() == pid && name == "mcp-guardian\n").then_some(held)
    }

    pub(crate) fn signal(&self, signal: i32) {
        let (fd, none) = (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: the descriptor is open; no information is a valid information.
        let _ = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0) };
    }
}
