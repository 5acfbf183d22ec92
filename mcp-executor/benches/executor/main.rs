//! The executor against the local launcher and against codex, in one run, with
//! the floor of both beside them.
//!
//! `MCP_BENCH_ECHO` names the `mcp-echo` binary, `MCP_TEST_CODEX` codex's (left
//! out without it).
//!
//! Each peer is measured in turns, interleaved, and the best turn counts: what
//! else the machine does only ever makes a turn slower. With the argument `calls`
//! nothing but calls is measured.

mod floor;
mod threads;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_executor::ExecutorLauncher;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::{LaunchContext, LaunchedParts, ServerLauncher, ServerSpec};
use mcp_lifecycle_measure::{Figure, Run};
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use threads::Threads;

const DAEMON: &str = env!("CARGO_BIN_EXE_mcp-executor");
const CALLS: usize = 1000;
const PACED: usize = 300;
const BLOBS: usize = 20;
const TURNS: usize = 3;
const FLEET: usize = 500;

struct Peer(Child, String);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listen(program: &str, args: &[&str]) -> Peer {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the peer starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let url = lines
        .find_map(|line| line.ok().filter(|line| line.starts_with("ws")))
        .expect("the peer says its URL");
    std::thread::spawn(move || lines.for_each(drop));
    Peer(child, url)
}

async fn remote(url: &str) -> Arc<dyn ServerLauncher> {
    let config = ExecutorLauncher::websocket(url);
    let server = ExecutorLauncher::connect(config).await.expect("connects");
    Arc::new(server)
}

async fn client(launcher: &Arc<dyn ServerLauncher>, echo: &str) -> LifecycleClient {
    let spec = ServerSpec::builder("echo", echo)
        .cwd("/")
        .build()
        .expect("valid");
    LifecycleClient::start(ServerConfig::new(Arc::clone(launcher), spec))
        .await
        .expect("starts")
}

fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    match arguments {
        Value::Object(map) => CallToolRequestParams::new(tool).with_arguments(map),
        _ => unreachable!("an object"),
    }
}

async fn latency(client: &LifecycleClient, calls: usize) -> Vec<Duration> {
    let mut taken = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begun = Instant::now();
        let echoed = client
            .peer()
            .call_tool(request("echo", json!({"text": "hello"})));
        echoed.await.expect("answers");
        taken.push(begun.elapsed());
    }
    taken.sort_unstable();
    taken
}

async fn throughput(client: &LifecycleClient) -> Duration {
    let begun = Instant::now();
    for _ in 0..BLOBS {
        let blob = client
            .peer()
            .call_tool(request("blob", json!({"bytes": 1 << 20})));
        blob.await.expect("answers");
    }
    begun.elapsed()
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn main() {
    floor::relay_if_asked();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(run());
}

async fn run() {
    let Ok(echo) = std::env::var("MCP_BENCH_ECHO") else {
        eprintln!("SKIPPED: MCP_BENCH_ECHO does not name the mcp-echo binary");
        return;
    };
    let mut run = Run::begin("executor");
    let daemon = listen(DAEMON, &["--listen", "ws://127.0.0.1:0"]);
    let codex = std::env::var("MCP_TEST_CODEX").ok();
    let codex = codex.map(|path| listen(&path, &["exec-server", "--listen", "ws://127.0.0.1:0"]));
    let mut peers: Vec<(&str, Arc<dyn ServerLauncher>)> = vec![
        ("local", Arc::new(LocalLauncher::new())),
        ("daemon", remote(&daemon.1).await),
    ];
    match &codex {
        Some(peer) => peers.push(("codex", remote(&peer.1).await)),
        None => eprintln!("SKIPPED: MCP_TEST_CODEX does not name a codex binary"),
    }
    let mut clients = Vec::new();
    for (name, launcher) in &peers {
        clients.push((*name, client(launcher, &echo).await));
    }
    let mut calls = vec![Duration::MAX; clients.len()];
    let mut blobs = vec![Duration::MAX; clients.len()];
    let only_calls = std::env::args().any(|arg| arg == "calls");
    let mut floor = (Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        for (at, (_, client)) in clients.iter().enumerate() {
            calls[at] = calls[at].min(median(&latency(client, CALLS).await));
            if !only_calls {
                blobs[at] = blobs[at].min(throughput(client).await);
            }
        }
        floor.0 = floor.0.min(floor::pipe(&echo, CALLS));
        floor.1 = floor.1.min(floor::relay(&echo, CALLS));
    }
    let peers_of = [None, Some(&daemon), codex.as_ref()];
    for ((name, client), peer) in clients.iter().zip(peers_of) {
        let client_and_peer = [Some(std::process::id()), peer.map(|peer| peer.0.id())];
        for (side, process) in ["client", "peer"].into_iter().zip(client_and_peer) {
            let Some(process) = process else { continue };
            let before = Threads::of(process);
            latency(client, CALLS).await;
            let between = Threads::of(process);
            for _ in 0..PACED {
                latency(client, 1).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let used = between.since(&before, CALLS);
            println!("{name:8} {side}, each call: {used}");
            let used = Threads::of(process).since(&between, PACED);
            println!("{name:8} {side}, each call, 2 ms apart: {used}");
        }
    }
    run.figure(Figure::ours("floor: call by pipe", us(floor.0), "us"));
    run.figure(Figure::ours("floor: call over a relay", us(floor.1), "us"));
    let latency = |name, at: usize| {
        let peer = (clients[at].0, us(calls[at]));
        Figure::ratio(name, us(calls[1]), peer, "us")
    };
    run.figure(latency("call latency, daemon to local", 0).at_most(2.5));
    if clients.len() > 2 {
        run.figure(latency("call latency, daemon to codex", 2).at_most(0.65));
    }
    if clients.len() > 2 && !only_calls {
        let rate = |at: usize| BLOBS as f64 / blobs[at].as_secs_f64();
        let name = "1 MiB results, daemon to codex";
        run.figure(Figure::ratio(name, rate(1), ("codex", rate(2)), "/s").at_least(2.0));
    }
    for (_, client) in &clients {
        client.shutdown().await.expect("proven gone");
    }
    if !only_calls {
        fleet(&mut run, &peers[1].1, &echo).await;
    }
    run.finish();
}

/// 500 servers on one connection; one of them stalls.
async fn fleet(run: &mut Run, launcher: &Arc<dyn ServerLauncher>, echo: &str) {
    let mut fleet = Vec::with_capacity(FLEET);
    for _ in 0..FLEET {
        fleet.push(client(launcher, echo).await);
    }
    let mut quiet = Duration::MAX;
    for _ in 0..3 {
        quiet = quiet.min(p99(&round(&fleet).await));
    }
    let spec = ServerSpec::builder("stalled", "cat")
        .arg("/dev/zero")
        .cwd("/");
    let stalled = launcher
        .launch(&spec.build().expect("valid"), &LaunchContext::new())
        .await
        .expect("starts");
    let LaunchedParts {
        stdout, terminator, ..
    } = stalled.into_parts();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut beside = Duration::MAX;
    for _ in 0..3 {
        beside = beside.min(p99(&round(&fleet).await));
    }
    let name = format!("{FLEET} servers, p99 of a call beside a stalled one");
    let alone = ("without it", us(quiet));
    run.figure(Figure::ratio(name, us(beside), alone, "us").at_most(2.0));
    terminator.kill_now();
    drop(stdout);
    let ends = fleet.iter().map(LifecycleClient::shutdown);
    for end in futures_util::future::join_all(ends).await {
        end.expect("proven gone");
    }
}

async fn round(fleet: &[LifecycleClient]) -> Vec<Duration> {
    let mut taken = Vec::new();
    for client in fleet {
        taken.extend(latency(client, 4).await);
    }
    taken.sort_unstable();
    taken
}
