//! Where one iteration happens: directories, cgroups, a user, and observers.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use mcp_lifecycle_conformance::alive::{AliveConn, AliveListener};
use tempfile::TempDir;

use crate::plan::{Machine, Plan};
use crate::process::is_running;
use crate::role::{CGROUP, USER};
use crate::{Check, LIMIT};

/// A user without privileges, one for each iteration that runs at the same
/// time, also of another soak: neither limits nor searches concern each other.
fn unprivileged_user() -> u32 {
    1_000_000 + std::process::id()
}

/// An iteration's surroundings.
///
/// # Drop
///
/// Ends and removes all of it.
pub(crate) struct Stage {
    directory: TempDir,
    pub(crate) cgroup: Option<PathBuf>,
    user: Option<u32>,
}

impl Stage {
    pub(crate) fn new(plan: &Plan, machine: Machine) -> io::Result<Self> {
        let user = (machine.root && plan.unprivileged).then(unprivileged_user);
        let directory = tempfile::Builder::new()
            .prefix("mcp-soak-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/tmp")?;
        for name in ["run", "tmp"] {
            let path = directory.path().join(name);
            fs::create_dir(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            chown(&path, user, user)?;
        }
        let cgroup = machine.cgroups.then(|| make_cgroups(plan, user));
        Ok(Self {
            directory,
            cgroup: cgroup.transpose()?,
            user,
        })
    }

    /// This program in another role.
    pub(crate) fn role(&self, args: &[&str], cgroup: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(args);
        self.place(&mut command, cgroup);
        command
    }

    /// The same, by a shell that has done something before.
    pub(crate) fn role_after(&self, first: &str, args: &[&str], cgroup: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!(r#"{first}; exec "$0" "$@""#));
        command.arg(env::current_exe().unwrap_or_default());
        command.args(args);
        self.place(&mut command, cgroup);
        command
    }

    fn place(&self, command: &mut Command, cgroup: &str) {
        command
            .env("XDG_RUNTIME_DIR", self.directory.path().join("run"))
            .env(
                "MCP_LIFECYCLE_STATE_DIR",
                self.directory.path().join("run/mcp-lifecycle"),
            )
            .env("TMPDIR", self.directory.path().join("tmp"))
            .env("RUST_BACKTRACE", "0");
        if let Some(base) = &self.cgroup {
            command.env(CGROUP, base.join(cgroup));
        }
        if let Some(user) = self.user {
            command.env(USER, user.to_string());
        }
    }

    /// A process of the fixture that is nobody's server, as the same user.
    pub(crate) fn fixture(&self, shape: &str, observer: &AliveListener) -> Command {
        let mut command = Command::new(crate::FIXTURE);
        command.args([shape, "--alive", &observer.address()]);
        if let Some(user) = self.user {
            // Of the same group as well, or its environment cannot be read.
            command.uid(user).gid(user).env_clear();
        }
        command
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Kills the host's cgroup, with all that is below it.
    pub(crate) fn kill_cgroup(&self, name: &str) {
        if let Some(base) = &self.cgroup {
            let _ = fs::write(base.join(name).join("cgroup.kill"), "1");
        }
    }

    /// The processes in a cgroup, or in one below it.
    pub(crate) fn inside(&self, name: &str) -> Vec<String> {
        let base = self.cgroup.as_deref();
        base.map_or_else(Vec::new, |base| members(&base.join(name)))
    }

    /// Files and directories that were left: ledgers, cgroups of servers, temporary files.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for name in ["run", "tmp"] {
            for entry in entries(&self.directory.path().join(name)) {
                match entry.file_name() {
                    Some(name) if name.to_string_lossy().starts_with("mcp-lifecycle") => {
                        left.extend(entries(&entry));
                    }
                    _ => left.push(entry),
                }
            }
        }
        if let Some(base) = &self.cgroup {
            let inside = entries(&base.join("host"));
            left.extend(inside.into_iter().filter(|entry| entry.is_dir()));
        }
        left
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(base) = &self.cgroup {
            let _ = fs::write(base.join("cgroup.kill"), "1");
            let end = Instant::now() + LIMIT;
            while remove_all(base).is_err() && base.exists() && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// An observer that any user may connect to.
pub(crate) fn observer() -> io::Result<AliveListener> {
    let observer = AliveListener::unix()?;
    let address = observer.address();
    if let Some(socket) = address.strip_prefix("unix:").map(Path::new) {
        fs::set_permissions(socket, Permissions::from_mode(0o666))?;
        if let Some(directory) = socket.parent() {
            fs::set_permissions(directory, Permissions::from_mode(0o711))?;
        }
    }
    Ok(observer)
}

/// Processes that live and must not: of the connections that are open, those of roles
/// that `must` be dead.
///
/// A connection is inherited by children, and so can outlive who opened it: one
/// that only somebody else holds, who may live, does not count. Who is about to
/// be a daemon holds one before it has said hello itself: within a `group`, it
/// also counts whether the opener is still there.
pub(crate) fn overdue(
    observer: &AliveListener,
    group: bool,
    must: impl Fn(&str) -> bool,
) -> Check<Vec<AliveConn>> {
    observer
        .block_on(observer.alive_at_this_moment(LIMIT))
        .map_err(|error| format!("the observer: {error}"))?;
    let alive = observer.connections().into_iter();
    let alive = alive.filter(|connection| !connection.is_dead());
    let (mut overdue, excused): (Vec<_>, Vec<_>) =
        alive.partition(|connection| must(&connection.holder().role));
    if group || !excused.is_empty() {
        let answers = |connection: &AliveConn| {
            let ping = connection.ping(Duration::from_millis(300));
            observer.block_on(ping).is_ok()
        };
        overdue.retain(|connection| (group && is_running(connection.pid())) || answers(connection));
    }
    Ok(overdue)
}

/// The root of the hierarchy in which this process may make cgroups.
pub(crate) fn cgroup_root() -> Option<&'static Path> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let probe = format!("mcp-soak-probe-{}", std::process::id());
        roots.into_iter().find(|root| {
            let probe = root.join(&probe);
            root.join("cgroup.procs").exists()
                && fs::create_dir(&probe).is_ok()
                && fs::remove_dir(&probe).is_ok()
        })
    };
    ROOT.get_or_init(find).as_deref()
}

fn make_cgroups(plan: &Plan, user: Option<u32>) -> io::Result<PathBuf> {
    let root = cgroup_root().ok_or(io::ErrorKind::NotFound)?;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let base = loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = root.join(format!("mcp-soak-{}-{count}", std::process::id()));
        match fs::create_dir(&base) {
            // Left by a soak that was killed, whose pid this process has.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => break made.map(|()| base)?,
        }
    };
    let names = ["", "host", "beside", "reaper", "elsewhere"];
    for name in names {
        let cgroup = base.join(name);
        if !name.is_empty() {
            fs::create_dir(&cgroup)?;
        }
        if plan.cgroups {
            for file in ["", "cgroup.procs", "cgroup.subtree_control"] {
                chown(cgroup.join(file), user, user)?;
            }
        } else if !name.is_empty() {
            // None below it, for nobody.
            fs::write(cgroup.join("cgroup.max.depth"), "0")?;
        }
    }
    Ok(base)
}

fn members(cgroup: &Path) -> Vec<String> {
    let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut all: Vec<_> = pids
        .lines()
        .map(|pid| format!("{pid} ({})", name(pid).trim_end()))
        .collect();
    for below in entries(cgroup) {
        if below.is_dir() {
            all.extend(members(&below));
        }
    }
    all
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn remove_all(cgroup: &Path) -> io::Result<()> {
    for below in entries(cgroup) {
        if below.is_dir() {
            remove_all(&below)?;
        }
    }
    fs::remove_dir(cgroup)
}
