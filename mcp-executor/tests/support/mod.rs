//! Parts that the suites share: real peers, and a look at `/proc`.
#![allow(
    clippy::allow_attributes,
    dead_code,
    reason = "each suite uses its part of this module"
)]

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_executor::{Daemon, Limits, Listener};
use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{
    LaunchContext, LaunchedParts, ServerLauncher, ServerSpec, ServerSpecBuilder,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// A peer that listens at a URL; killed with its value.
pub(crate) struct Peer {
    pub(crate) child: Child,
    pub(crate) url: String,
}

/// The real codex, whose binary `MCP_TEST_CODEX` names.
pub(crate) fn codex() -> String {
    let path = std::env::var("MCP_TEST_CODEX");
    path.expect("MCP_TEST_CODEX names a codex binary; `tests/run codex` installs one")
}

/// The daemon's program.
pub(crate) const DAEMON: &str = env!("CARGO_BIN_EXE_mcp-executor");

/// Starts a daemon that listens at a port of its choice.
pub(crate) async fn daemon(args: &[&str]) -> Peer {
    listen(DAEMON, &[&["--listen", "ws://127.0.0.1:0"], args].concat()).await
}

/// Runs the daemon to its end; whether it succeeded, and what it said.
pub(crate) async fn run(args: &[&str]) -> (bool, String) {
    let mut command = Command::new(DAEMON);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command.env_remove("MCP_EXECUTOR_TOKEN");
    let output = within(command.output()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let status = output.status;
    (status.success(), format!("{text}\n{status}"))
}

/// Fails unless the daemon does not start, and says this.
pub(crate) async fn refuses(args: &[&str], why: &str) {
    let (success, text) = run(args).await;
    assert!(!success, "{args:?} did not fail: {text}");
    assert!(text.contains(why), "{args:?} does not say {why:?}: {text}");
}

/// The lean MCP server, which cargo puts beside the daemon.
pub(crate) fn echo_server() -> std::path::PathBuf {
    let path = std::path::Path::new(DAEMON).with_file_name("mcp-echo");
    let hint = "run `cargo build -p mcp-lifecycle-conformance` first";
    assert!(path.is_file(), "{} is missing: {hint}", path.display());
    path
}

/// Starts a peer whose first line of output is its URL.
pub(crate) async fn listen(program: &str, args: &[&str]) -> Peer {
    started(Command::new(program).args(args)).await
}

/// As [`listen`], by a command whose standard error is the caller's business.
pub(crate) async fn started(command: &mut Command) -> Peer {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines
            .next_line()
            .await
            .unwrap()
            .expect("the peer says its URL");
        if line.starts_with("ws") || line.starts_with("unix:") {
            break line;
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Peer { child, url }
}

/// Sends a signal to a child of ours that was not reaped, or to a process below it.
pub(crate) fn signal(signal: Signal, pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

pub(crate) async fn launcher(config: ExecServerConfig) -> ExecutorLauncher {
    ExecutorLauncher::connect(config).await.unwrap()
}

pub(crate) fn sh(script: &str) -> ServerSpecBuilder {
    ServerSpec::builder("test", "/bin/sh")
        .args(["-c", script])
        .cwd("/")
}

/// A launched server with a handle around it.
pub(crate) struct Server {
    pub(crate) handle: ServerHandle,
    pub(crate) stdin: mcp_lifecycle_core::terminate::ServerStdin,
    pub(crate) stdout: BufReader<mcp_lifecycle_core::launch::BoxRead>,
}

pub(crate) async fn launch(launcher: &dyn ServerLauncher, spec: ServerSpecBuilder) -> Server {
    let launched = launcher
        .launch(&spec.build().unwrap(), &LaunchContext::new())
        .await
        .unwrap();
    let LaunchedParts {
        stdin,
        stdout,
        stderr,
        terminator,
        ..
    } = launched.into_parts();
    if let Some(mut stderr) = stderr {
        tokio::spawn(async move {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text).await;
            eprint!("{}", String::from_utf8_lossy(&text));
        });
    }
    let (handle, stdin) = ServerHandle::new("test", stdin, terminator);
    Server {
        handle,
        stdin,
        stdout: BufReader::new(stdout),
    }
}

impl Server {
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        within(self.stdout.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) async fn end(
        &self,
        policy: &TerminationPolicy,
    ) -> mcp_lifecycle_core::terminate::TerminationOutcome {
        within(self.handle.terminate(policy, EndReason::Shutdown)).await
    }
}

/// Serves with these limits in this process; the daemon, and where it listens.
pub(crate) async fn serving(limits: Limits) -> (Daemon, String) {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), limits);
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(address, None, None).await.unwrap();
    let (url, serves) = (listener.url().unwrap(), daemon.clone());
    tokio::spawn(async move { listener.serve(&serves).await });
    (daemon, url)
}

/// A number of the daemon's, by its name and labels; 0 where it is not there.
pub(crate) fn number(metrics: &str, name: &str) -> u64 {
    let line = |line: &str| {
        line.strip_prefix("mcp_executor_")?
            .strip_prefix(name)?
            .trim()
            .parse()
            .ok()
    };
    metrics.lines().find_map(line).unwrap_or(0)
}

/// Sends so many bytes through a server that is a `cat`, and compares.
pub(crate) async fn echo(server: &mut Server, size: u32) {
    let data: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
    let Server { stdin, stdout, .. } = server;
    let write = async {
        for piece in data.chunks(10_000) {
            stdin.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let read = async {
        let mut back = vec![0; data.len()];
        stdout.read_exact(&mut back).await.unwrap();
        assert!(back == data, "a byte was lost, repeated or changed");
    };
    within(async { tokio::join!(write, read) }).await;
}

/// The default policy, with a proof that a loaded machine may delay: two seconds are its default.
pub(crate) fn without_haste() -> TerminationPolicy {
    TerminationPolicy::default().kill_confirmation(LIMIT)
}

/// The policy without graces, with a proof that a loaded machine may delay.
pub(crate) fn at_once() -> TerminationPolicy {
    TerminationPolicy::immediate().kill_confirmation(LIMIT)
}

/// A bound that load does not reach.
const LIMIT: Duration = Duration::from_secs(40);

/// A hard limit on every wait.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("done within its limit")
}

/// A word that no other process has in its arguments.
pub(crate) fn marker(name: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("mark-{name}-{}-{n}-", std::process::id())
}

/// Processes on this machine with `marker` in their arguments.
pub(crate) fn alive(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(cmdline) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let text = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        if text.contains(marker) && !own {
            found.push(format!("{} {text}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Waits until no process has `marker` in its arguments; how long it took.
pub(crate) async fn vanished(marker: &str, limit: Duration) -> Duration {
    let begun = Instant::now();
    loop {
        let left = alive(marker);
        if left.is_empty() {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < limit, "after {limit:?} alive: {left:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
