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
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_launcher_docker::{ContainerOptions, ContainerTracker, DockerLauncher};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{
    BoxRead, LaunchContext, LaunchedServer, ServerLauncher, ServerSpec,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, ServerStdin, TerminationPolicy};
use mcp_lifecycle_measure::{Figure, Run};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

const IMAGE: &str = "mcp-fixture:test";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;

#[tokio::main]
async fn main() {
    let launcher = DockerLauncher::new().unwrap();
    let mut run = Run::begin("docker");
    launch(&mut run, &launcher).await;
    parallel(&mut run, &launcher).await;
    calls(&mut run, &launcher).await;
    memory(&mut run).await;
    stubborn(&mut run, &launcher).await;
    run.finish();
}

async fn launch(run: &mut Run, launcher: &DockerLauncher) {
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
    let docker_run = ("docker run", ms(median(cli)));
    let figure = Figure::ratio("launch to first reply", ms(median(ours)), docker_run, "ms");
    run.figure(figure.at_most(1.0));
}

async fn parallel(run: &mut Run, launcher: &DockerLauncher) {
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
    let name = "20 in parallel to first reply";
    let docker_runs = ("20 docker runs", ms(median(cli)));
    run.figure(Figure::ratio(name, ms(median(ours)), docker_runs, "ms").at_most(0.9));
}

/// A bare attach is the docker program's: bytes in, bytes out, on a thread.
async fn calls(run: &mut Run, launcher: &DockerLauncher) {
    const CALLS: usize = 2000;
    let mut ours = Session::ours(launcher).await;
    let mut bare = Cli::start();
    let tracker = ContainerTracker::new(Arc::new(LocalLauncher::new()));
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
    let per_message = |times| ms(median(times)) * 1e3;
    let [ours_time, bare_time, proxied_time, unproxied_time] = times.map(per_message);
    let bare = ("docker run -i", bare_time);
    run.figure(Figure::ratio("round trip", ours_time, bare, "us").at_most(1.3));
    // A round trip is two messages.
    let name = "the wrapper proxy, per message";
    let direct = ("without it", unproxied_time / 2.0);
    run.figure(Figure::beyond(name, proxied_time / 2.0, direct, "us").at_most(40.0));
    ours.end().await;
    proxied.end().await;
    unproxied.end().await;
}

/// The memory that a proxy in use takes in this process, beside that of the server.
async fn memory(run: &mut Run) {
    const SERVERS: u32 = 10;
    let tracker = ContainerTracker::new(Arc::new(LocalLauncher::new()));
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
    let name = "the wrapper proxy, resident memory per server";
    let each = |kib: i64| kib as f64 / f64::from(SERVERS);
    let figure = Figure::beyond(name, each(with), ("without it", each(without)), "KiB");
    run.figure(figure.at_most(4096.0));
    join_all(direct.iter().chain(&proxied).map(Session::end)).await;
}

/// The resident memory of this process, in KiB.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace();
    words.rev().nth(1).unwrap().parse().unwrap()
}

async fn stubborn(run: &mut Run, launcher: &DockerLauncher) {
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
        .eof_grace(grace)
        .term_grace(grace)
        .kill_confirmation(Duration::from_secs(10));
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
    let removal = begun.elapsed().as_secs_f64();
    let name = "20 stubborn containers ended, beyond the graces";
    let floor = ("20 x docker rm -f", removal);
    run.figure(Figure::beyond(name, over.as_secs_f64(), floor, "s").at_most(0.1));
}

fn options() -> ContainerOptions {
    ContainerOptions::new(IMAGE).network("none")
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

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
