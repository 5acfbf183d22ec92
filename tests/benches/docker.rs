//! The cost of containers, as ratios to the docker program and to a bare attach
//! in the same run.
//!
//! ```text
//! .ci/dockerd run cargo bench -p mcp-lifecycle-conformance --bench docker
//! ```
//!
//! The engine must have the image `mcp-fixture:test`, which the tests make.

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_launcher_docker::{ContainerOptions, ContainerTracker, DockerLauncher};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{
    BoxRead, LaunchContext, LaunchedServer, ServerLauncher, ServerSpec,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, ServerStdin, TerminationPolicy};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

const IMAGE: &str = "mcp-fixture:test";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;

#[tokio::main]
async fn main() {
    let launcher = DockerLauncher::new().unwrap();
    launch(&launcher).await;
    parallel(&launcher).await;
    calls(&launcher).await;
    memory().await;
    stubborn(&launcher).await;
}

async fn launch(launcher: &DockerLauncher) {
    let (mut ours, mut cli) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let begun = Instant::now();
        let session = Session::ours(launcher).await;
        ours.push(begun.elapsed());
        session.end().await;
        let begun = Instant::now();
        let session = Cli::start();
        cli.push(begun.elapsed());
        drop(session);
    }
    ratio(
        "launch to first reply",
        median(ours),
        median(cli),
        "docker run",
        1.0,
    );
}

async fn parallel(launcher: &DockerLauncher) {
    let (mut ours, mut cli) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let all = (0..20).map(|_| Session::ours(launcher));
        let begun = Instant::now();
        let sessions = join_all(all).await;
        ours.push(begun.elapsed());
        join_all(sessions.iter().map(Session::end)).await;
        let begun = Instant::now();
        let starts = (0..20).map(|_| tokio::task::spawn_blocking(Cli::start));
        let all = join_all(starts).await;
        cli.push(begun.elapsed());
        drop(all);
    }
    ratio(
        "20 in parallel to first reply",
        median(ours),
        median(cli),
        "20 docker runs",
        0.9,
    );
}

/// A bare attach is the docker program's: bytes in, bytes out, on a thread.
async fn calls(launcher: &DockerLauncher) {
    const CALLS: usize = 2000;
    let mut ours = Session::ours(launcher).await;
    let mut bare = Cli::start();
    let tracker = ContainerTracker::new(LocalLauncher::new());
    let mut proxied = Session::tracked(&tracker).await;
    let direct = LocalLauncher::new();
    let mut unproxied = Session::tracked(&direct).await;
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..CALLS {
        times[0].push(time(ours.ping()).await);
        times[1].push(time(async { bare.ping() }).await);
        times[2].push(time(proxied.ping()).await);
        times[3].push(time(unproxied.ping()).await);
    }
    let [ours_time, bare_time, proxied_time, unproxied_time] = times.map(median);
    ratio("round trip", ours_time, bare_time, "docker run -i", 1.3);
    let added = proxied_time.saturating_sub(unproxied_time);
    println!(
        "wrapper proxy adds {:.1?} per message, {added:.1?} per round trip ({proxied_time:.1?} against {unproxied_time:.1?}); 50 us per message allowed",
        added / 2
    );
    ours.end().await;
    proxied.end().await;
    unproxied.end().await;
}

/// The memory that a proxy in use takes in this process, beside that of the server.
async fn memory() {
    const SERVERS: u32 = 10;
    let tracker = ContainerTracker::new(LocalLauncher::new());
    // What is set up once, and what the allocator keeps.
    for launcher in [&LocalLauncher::new() as &dyn ServerLauncher, &tracker] {
        Session::tracked(launcher).await.end().await;
    }
    let before = resident();
    let mut direct = Vec::new();
    let launcher = LocalLauncher::new();
    for _ in 0..SERVERS {
        direct.push(Session::tracked(&launcher).await);
    }
    let between = resident();
    let mut proxied = Vec::new();
    for _ in 0..SERVERS {
        proxied.push(Session::tracked(&tracker).await);
    }
    let after = resident();
    let (without, with) = (between - before, after - between);
    println!(
        "wrapper proxy takes {} KiB per server ({with} KiB for {SERVERS} servers, {without} KiB for as many without it); 4096 KiB allowed",
        (with - without).max(0) / i64::from(SERVERS)
    );
    join_all(direct.iter().chain(&proxied).map(Session::end)).await;
}

/// The resident memory of this process, in KiB.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace();
    words.rev().nth(1).unwrap().parse().unwrap()
}

async fn stubborn(launcher: &DockerLauncher) {
    let options =
        options().apply(ServerSpec::builder("bench", "/mcp-fixture").arg("ignore-eof-term"));
    let spec = options.build().unwrap();
    let context = LaunchContext::new();
    let servers = join_all((0..20).map(|_| launcher.launch(&spec, &context))).await;
    let servers: Vec<_> = servers
        .into_iter()
        .map(|s| Session::of(s.unwrap()))
        .collect();
    let grace = Duration::from_millis(500);
    let policy = TerminationPolicy::default()
        .with_eof_grace(grace)
        .with_term_grace(grace)
        .with_kill_confirmation(Duration::from_secs(10));
    let begun = Instant::now();
    let ends = servers
        .iter()
        .map(|s| s.handle.terminate(&policy, EndReason::Shutdown));
    for end in join_all(ends).await {
        end.unwrap();
    }
    let over = begun.elapsed().saturating_sub(grace * 2);
    // What the engine itself takes to remove as many, asked by its own program.
    let context = LaunchContext::new();
    let all = join_all((0..20).map(|_| launcher.launch(&spec, &context))).await;
    let ids = all.iter().map(
        |server| match server.as_ref().unwrap().terminator().identity() {
            mcp_lifecycle_core::launch::ServerIdentity::Container { id, .. } => id,
            other => panic!("{other}"),
        },
    );
    let ids: Vec<_> = ids.collect();
    let begun = Instant::now();
    let removals = ids.iter().map(|id| {
        let mut command = Command::new("docker");
        command.args(["rm", "-f", id]).stdout(Stdio::null());
        tokio::task::spawn_blocking(move || command.status())
    });
    join_all(removals).await;
    println!(
        "20 stubborn containers: graces + {over:.2?}; 1 s allowed (20 x docker rm -f: {:.2?})",
        begun.elapsed()
    );
}

fn options() -> ContainerOptions {
    let mut options = ContainerOptions::new(IMAGE);
    options.network = Some("none".to_owned());
    options
}

/// A server of ours, or of the local launcher's.
struct Session {
    handle: ServerHandle,
    stdin: ServerStdin,
    stdout: tokio::io::BufReader<BoxRead>,
}

impl Session {
    async fn ours(launcher: &DockerLauncher) -> Self {
        let spec = ServerSpec::builder("bench", "/mcp-fixture").arg("plain");
        let spec = options().apply(spec).build().unwrap();
        Self::of(launcher.launch(&spec, &LaunchContext::new()).await.unwrap())
            .ready()
            .await
    }

    async fn tracked(launcher: &dyn ServerLauncher) -> Self {
        let run = ["run", "-i", "--rm", "--init", "--network", "none", IMAGE];
        let spec = ServerSpec::builder("bench", "docker")
            .args(run)
            .args(["/mcp-fixture", "plain"])
            .pass_env("DOCKER_HOST")
            .build()
            .unwrap();
        Self::of(launcher.launch(&spec, &LaunchContext::new()).await.unwrap())
            .ready()
            .await
    }

    fn of(server: LaunchedServer) -> Self {
        let parts = server.into_parts();
        let (handle, stdin) = ServerHandle::new("bench", parts.stdin, parts.terminator);
        Self {
            handle,
            stdin,
            stdout: tokio::io::BufReader::new(parts.stdout),
        }
    }

    async fn ready(mut self) -> Self {
        self.exchange(HELLO).await;
        self
    }

    async fn ping(&mut self) {
        self.exchange(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
            .await;
    }

    async fn exchange(&mut self, message: &str) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
        self.stdin.flush().await.unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).await.unwrap();
        assert!(line.contains("jsonrpc"), "{line:?}");
    }

    async fn end(&self) {
        let policy = TerminationPolicy::default();
        self.handle
            .terminate(&policy, EndReason::Shutdown)
            .await
            .unwrap();
    }
}

/// `docker run -i --rm --init`.
struct Cli {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Cli {
    fn start() -> Self {
        let mut child = Command::new("docker")
            .args(["run", "-i", "--rm", "--init", "--network", "none"])
            .args([IMAGE, "/mcp-fixture", "plain"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut cli = Self { child, stdout };
        cli.exchange(HELLO);
        cli
    }

    fn ping(&mut self) {
        self.exchange(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    }

    fn exchange(&mut self, message: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(line.contains("jsonrpc"), "{line:?}");
    }
}

impl Drop for Cli {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

async fn time(work: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    work.await;
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(what: &str, ours: Duration, base: Duration, of: &str, allowed: f64) {
    let ratio = ours.as_secs_f64() / base.as_secs_f64();
    println!("{what}: {ours:.1?}, {ratio:.2} x {of} ({base:.1?}); {allowed} x allowed");
}
