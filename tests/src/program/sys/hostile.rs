//! The system calls of a server that turns against what holds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::libc::{self, c_long};
use nix::unistd::getppid;

/// An attack, and its refusal.
pub(crate) type Attempts = Vec<(String, io::Result<c_long>)>;

/// Makes a system call. Pointers are passed as numbers; the caller keeps what they point at.
fn call(number: c_long, words: [c_long; 5]) -> io::Result<c_long> {
    let [a, b, c, d, e] = words;
    // SAFETY: the callers below pass numbers, and addresses of live values of the right size.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

fn address<T: ?Sized>(value: &T) -> c_long {
    std::ptr::from_ref(value).cast::<u8>() as c_long
}

/// Returns whether this process cannot signal its parent: only then is it safe to try what follows.
pub(crate) fn is_restricted() -> bool {
    let parent = c_long::from(getppid().as_raw());
    let probe = call(libc::SYS_kill, [parent, 0, 0, 0, 0]);
    probe.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

/// The guardian, its host, and the processes above it, as far as `/proc` is that of this process's
/// PID namespace: all outside of the server, of which this is the first process.
pub(crate) fn ancestors() -> Vec<c_long> {
    let parent = |pid: c_long| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|pid| *pid > 1)
    };
    let mut all = vec![c_long::from(getppid().as_raw())];
    while let Some(next) = all
        .last()
        .filter(|pid| **pid > 1)
        .and_then(|pid| parent(*pid))
    {
        all.push(next);
    }
    all
}

/// Every process that can be signalled is killed, its own family as well.
pub(crate) fn kill_all() {
    let _ = call(libc::SYS_kill, [-1, libc::SIGKILL.into(), 0, 0, 0]);
}

/// Every way to signal a process.
pub(crate) fn signals(pid: c_long) -> Attempts {
    let mut all = Attempts::new();
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        let number = c_long::from(signal);
        let mut info = [0_i32; 32];
        // `si_signo`, and `SI_QUEUE` as `si_code`.
        (info[0], info[2]) = (signal, -1);
        let info = address(&info);
        // SAFETY: takes a number.
        let group = c_long::from(unsafe { libc::getpgid(pid as i32) });
        let mut attempt = |name: &str, number, words| {
            all.push((format!("{name} {signal} {pid}"), call(number, words)));
        };
        attempt("kill", libc::SYS_kill, [pid, number, 0, 0, 0]);
        // Zero: a group outside of this PID namespace. One: every process.
        if group > 1 {
            attempt("kill group", libc::SYS_kill, [-group, number, 0, 0, 0]);
        }
        attempt("tkill", libc::SYS_tkill, [pid, number, 0, 0, 0]);
        attempt("tgkill", libc::SYS_tgkill, [pid, pid, number, 0, 0]);
        let queue = libc::SYS_rt_sigqueueinfo;
        attempt("sigqueue", queue, [pid, number, info, 0, 0]);
        let thread = libc::SYS_rt_tgsigqueueinfo;
        attempt("tgsigqueue", thread, [pid, pid, number, info, 0]);
        if let Ok(held) = hold(pid) {
            let held = held.as_raw_fd().into();
            let send = libc::SYS_pidfd_send_signal;
            attempt("pidfd_send_signal", send, [held, number, 0, 0, 0]);
        }
    }
    const SETSIG: i32 = 10;
    // A socket that sends SIGKILL to its owner when there is something to read.
    if let Ok((one, mut other)) = UnixStream::pair() {
        let one = one.as_raw_fd();
        for (command, value) in [
            (libc::F_SETOWN, pid as i32),
            (SETSIG, libc::SIGKILL),
            (libc::F_SETFL, libc::O_ASYNC),
        ] {
            // SAFETY: takes numbers.
            let _ = unsafe { libc::fcntl(one, command, value) };
        }
        let _ = other.write_all(b"x");
    }
    all
}

fn hold(pid: c_long) -> io::Result<OwnedFd> {
    let fd = call(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0])?;
    // SAFETY: just opened, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Every way to trace a process, to change its memory, to take its descriptors or to enter its
/// namespaces.
pub(crate) fn traces(pid: c_long) -> Attempts {
    const SEIZE: c_long = 0x4206;
    const PAGE_OUT: c_long = 21;
    let mut all = Attempts::new();
    let mut attempt = |name: &str, result| all.push((format!("{name} {pid}"), result));
    let ptrace = |request| call(libc::SYS_ptrace, [request, pid, 0, 0, 0]);
    attempt("ptrace seize", ptrace(SEIZE));
    attempt("ptrace attach", ptrace(libc::PTRACE_ATTACH.into()));
    let (byte, page) = ([0_u8; 1], [0x40_0000_usize, 4096]);
    let local = [byte.as_ptr() as usize, 1];
    let (from, to) = (address(&local), address(&page));
    let write = call(libc::SYS_process_vm_writev, [pid, from, 1, to, 1]);
    attempt("process_vm_writev", write);
    for file in ["mem", "fd/3", "ns/pid", "root", "cwd"] {
        let mut options = OpenOptions::new();
        options.read(true).write(file == "mem");
        let opened = options.open(format!("/proc/{pid}/{file}"));
        attempt(file, opened.map(|_| 0));
    }
    if let Ok(held) = hold(pid) {
        let held = c_long::from(held.as_raw_fd());
        attempt(
            "pidfd_getfd",
            call(libc::SYS_pidfd_getfd, [held, 3, 0, 0, 0]),
        );
        for kind in [
            libc::CLONE_NEWPID,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
        ] {
            let entered = call(libc::SYS_setns, [held, kind.into(), 0, 0, 0]);
            attempt("setns", entered);
        }
        // Changes nothing but where its pages are: root may.
        let advise = libc::SYS_process_madvise;
        let _ = call(advise, [held, to, 1, PAGE_OUT, 0]);
    }
    all
}

/// Limits whose excess ends a process.
pub(crate) fn limits(pid: c_long) -> Attempts {
    let none = [0_u64; 2];
    let limit = |what| {
        let words = [pid, what, address(&none), 0, 0];
        (format!("prlimit {pid}"), call(libc::SYS_prlimit64, words))
    };
    // The constants' type depends on the C library.
    [libc::RLIMIT_CPU, libc::RLIMIT_NOFILE, libc::RLIMIT_AS]
        .map(c_long::from)
        .map(limit)
        .into()
}

/// Every way to change a cgroup, or to leave one: of each hierarchy, its own and those above.
pub(crate) fn cgroups() -> Attempts {
    let mut all = Attempts::new();
    for directory in own_cgroups() {
        for (file, text) in [
            ("cgroup.procs", "0"),
            ("tasks", "0"),
            ("cgroup.threads", "0"),
            ("cgroup.freeze", "1"),
            ("freezer.state", "FROZEN"),
            ("memory.max", "max"),
            ("memory.high", "max"),
            ("memory.limit_in_bytes", "-1"),
            ("pids.max", "max"),
            ("release_agent", "/bin/false"),
            ("cgroup.subtree_control", "-memory"),
            ("cgroup.kill", "1"),
        ] {
            let path = directory.join(file);
            if path.exists() {
                let written = OpenOptions::new().write(true).open(&path);
                let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
                all.push((format!("{} {text}", path.display()), written.map(|()| 0)));
            }
        }
        let below = directory.join(format!("hostile-{}", std::process::id()));
        let made = fs::create_dir(&below);
        all.push((format!("mkdir {}", below.display()), made.map(|()| 0)));
        let born = born_in(&directory);
        all.push((format!("clone3 {}", directory.display()), born));
    }
    all.extend(mounts());
    all
}

/// The directories of its cgroups, up to the root of each mount.
fn own_cgroups() -> Vec<PathBuf> {
    let read = |file| fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let (mounts, own) = (read("mountinfo"), read("cgroup"));
    let mounts = mounts.lines().filter(|line| line.contains(" - cgroup"));
    let roots = mounts.filter_map(|line| line.split(' ').nth(4));
    let paths: Vec<_> = own
        .lines()
        .filter_map(|line| line.split(':').nth(2))
        .collect();
    let mut all = Vec::new();
    for root in roots.map(Path::new) {
        for path in &paths {
            let inside = root.join(path.trim_start_matches('/'));
            let up = inside.ancestors().take_while(|it| it.starts_with(root));
            all.extend(up.filter(|it| it.is_dir()).map(Path::to_path_buf));
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Starts a child in this cgroup, which its own directory alone is needed for.
fn born_in(cgroup: &Path) -> io::Result<c_long> {
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(cgroup)?;
    let mut args = [0_u64; 11];
    args[0] = 0x2_0000_0000;
    args[4] = libc::SIGCHLD as u64;
    args[10] = directory.as_raw_fd() as u64;
    let size = size_of_val(&args) as c_long;
    match call(libc::SYS_clone3, [address(&args), size, 0, 0, 0]) {
        // SAFETY: ends the child at once.
        Ok(0) => unsafe { libc::_exit(0) },
        other => other,
    }
}

/// New mounts, in which the cgroups would be where they can be written.
fn mounts() -> Attempts {
    let mut all = Attempts::new();
    let mut attempt = |name: &str, result| all.push((name.to_owned(), result));
    let (cgroup2, target) = (c"cgroup2", c"/mnt");
    let (kind, at) = (cgroup2.as_ptr() as c_long, target.as_ptr() as c_long);
    attempt("mount", call(libc::SYS_mount, [kind, at, kind, 0, 0]));
    let cgroups = c"/sys/fs/cgroup".as_ptr() as c_long;
    let bind = libc::MS_BIND as c_long;
    attempt("bind", call(libc::SYS_mount, [cgroups, at, 0, bind, 0]));
    attempt("detached", detached(kind).map(|_| 0));
    all
}

/// Opens a cgroup for writing in a mount that is nowhere.
fn detached(kind: c_long) -> io::Result<File> {
    const CREATE: c_long = 6;
    let context = call(libc::SYS_fsopen, [kind, 0, 0, 0, 0])?;
    call(libc::SYS_fsconfig, [context, CREATE, 0, 0, 0])?;
    let mount = call(libc::SYS_fsmount, [context, 0, 0, 0, 0])?;
    let procs = format!("/proc/self/fd/{mount}/cgroup.procs");
    OpenOptions::new().write(true).open(procs)
}

/// Opens files until there are no more descriptors, and closes them.
pub(crate) fn fill_descriptors() {
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
}
