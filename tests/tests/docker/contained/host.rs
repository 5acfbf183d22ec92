//! A host that starts a server by `mcp-contain`, and what there is of it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use mcp_lifecycle_core::launch::ServerSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Rig, eventually};

/// The program, which `tests/containers` has built beside this test.
pub(crate) fn mcp_contain() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("mcp-contain");
    let path = program.display();
    assert!(
        program.exists(),
        "{path} is missing: cargo build -p mcp-contain"
    );
    program
}

/// A shell, that starts the wrapper and waits for it.
pub(super) struct Host {
    child: Child,
    pub(super) shim: i32,
    state: PathBuf,
}

/// A process, as /proc names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: String,
}

const SCRIPT: &str =
    r#"exec 3<&0; "$@" <&3 3<&- & echo $! >"$SHIM.new"; mv "$SHIM.new" "$SHIM"; wait $!; exit $?"#;

impl Host {
    /// Starts what the specification says, by the wrapper with these options.
    pub(super) async fn start(rig: &Rig, options: &[&str], server: &ServerSpec) -> Self {
        let state = state(rig);
        let pid_file = rig.ledgers.path().join("shim");
        let _ = fs::remove_file(&pid_file);
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "sh"])
            .arg(mcp_contain())
            .args(options)
            .arg(server.program().unwrap())
            .args(server.args())
            .envs(server.env().literals())
            .env("MCP_LIFECYCLE_STATE_DIR", &state)
            .env("SHIM", &pid_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let shim = || fs::read_to_string(&pid_file).ok()?.trim().parse().ok();
        eventually("the shim has a number", || shim().is_some()).await;
        let shim = shim().unwrap();
        Self { child, shim, state }
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The end of the server's input.
    pub(super) fn close(&mut self) {
        self.child.stdin = None;
    }

    /// Waits for the end of the host, which is that of the shim unless it was killed.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the host ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    pub(super) fn guardian(&self) -> i32 {
        let found = children(self.shim).into_iter();
        let mut guardians = found.filter(|it| it.name == "mcp-guardian");
        guardians.next().expect("a guardian").pid
    }

    /// The processes of this host and its servers that have an environment.
    pub(super) fn processes(&self) -> Vec<Process> {
        let mark = format!("MCP_LIFECYCLE_STATE_DIR={}", self.state.display());
        all()
            .into_iter()
            .filter(|it| {
                let environ = fs::read(format!("/proc/{}/environ", it.pid)).unwrap_or_default();
                environ
                    .split(|&byte| byte == 0)
                    .any(|one| one == mark.as_bytes())
            })
            .collect()
    }

    /// The companion, and what it has started.
    pub(super) fn companions(&self) -> Vec<i32> {
        let own = self.processes().into_iter();
        let companions = own.filter(|it| it.name == "mcp-companion");
        companions
            .flat_map(|it| {
                let below = children(it.pid).into_iter().map(|it| it.pid);
                std::iter::once(it.pid).chain(below).collect::<Vec<_>>()
            })
            .collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the program keeps its state in this test.
pub(super) fn state(rig: &Rig) -> PathBuf {
    rig.ledgers.path().join("state")
}

/// Runs a verb to its end.
pub(super) fn verb(rig: &Rig, words: &[&str]) -> Output {
    let mut command = Command::new(mcp_contain());
    command.args(words).env("DOCKER_HOST", &rig.engine.host);
    command.env("MCP_LIFECYCLE_STATE_DIR", state(rig));
    command.output().unwrap()
}

pub(super) fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Whether it has been stopped.
pub(super) fn is_held(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.starts_with('T')
}

/// How a shell says how the shim has ended.
pub(super) fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            named(pid, &entry.path())
        })
        .collect()
}

fn children(pid: i32) -> Vec<Process> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let list = lists.collect::<Vec<_>>().join(" ");
    let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(|pid| named(pid, Path::new(&format!("/proc/{pid}"))))
        .collect()
}

fn named(pid: i32, directory: &Path) -> Option<Process> {
    let name = fs::read_to_string(directory.join("comm")).ok()?;
    let name = name.trim().to_owned();
    Some(Process { pid, name })
}
