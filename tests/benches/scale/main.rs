//! What many servers cost one host, against as many of rmcp's `TokioChildProcess`, in turns.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench scale [-- idle busy starts sustained limit] [--scale 10]
//! ```
//!
//! `idle`: 1 to 2,000 servers that do nothing. `busy`: 500 that talk, and an unrelated timer beside them. `starts`: 200
//! at once. `sustained`: launches and ends in a loop. `limit`: how many fit into 1,024 descriptors. `--scale 10` divides
//! the numbers of servers and the times by ten, for a quick look.

mod busy;
mod host;
mod idle;
#[path = "../client/peers.rs"]
#[expect(
    dead_code,
    reason = "the other bench prepares its starts, and asks for large results"
)]
mod peers;
mod starts;

use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::deadline::Watchdog;
use mcp_lifecycle_measure::Run;
use peers::{Ours, Peer, Theirs};
use tokio::task::JoinSet;

/// Both sides.
struct Sides {
    ours: Arc<Ours>,
    /// Ours without a guardian, and so in the host's session.
    group: Arc<Ours>,
    theirs: Arc<Theirs>,
}

/// How many, and how long.
struct Scale(u32);

impl Scale {
    fn servers(&self, number: usize) -> usize {
        (number / self.0 as usize).max(1)
    }

    fn time(&self, time: Duration) -> Duration {
        time / self.0
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = arguments.iter().position(|argument| argument == "--scale");
    let scale = scale.and_then(|at| arguments.get(at + 1)?.parse().ok());
    let scale = Scale(scale.unwrap_or(1));
    const PARTS: [&str; 5] = ["idle", "busy", "starts", "sustained", "limit"];
    let asked: Vec<_> = PARTS
        .into_iter()
        .filter(|part| arguments.iter().any(|a| a == part))
        .collect();
    let wants = |part| asked.is_empty() || asked.contains(&part);
    let _watchdog = Watchdog::arm("the whole bench", Duration::from_secs(1200));

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let sides = Sides {
        ours: Arc::new(Ours::new(LocalLauncher::new())),
        group: Arc::new(Ours::new(
            LocalLauncher::builder()
                .isolation(Isolation::ProcessGroup)
                .build(),
        )),
        theirs: Arc::new(Theirs),
    };
    let mut run = Run::begin("scale");
    runtime.block_on(async {
        // What both set up once, and threads that everybody shares, are there before anything is counted.
        end(&sides.ours, connect(&sides.ours, 2, 2).await).await;
        end(&sides.group, connect(&sides.group, 2, 2).await).await;
        end(&sides.theirs, connect(&sides.theirs, 2, 2).await).await;
        if wants("idle") {
            idle::run(&mut run, &sides, &scale).await;
        }
        if wants("busy") {
            busy::run(&mut run, &sides, &scale).await;
        }
        if wants("starts") {
            starts::at_once(&mut run, &sides, &scale).await;
        }
        if wants("sustained") {
            starts::sustained(&mut run, &sides, &scale).await;
        }
        if wants("limit") {
            idle::limit(&mut run).await;
        }
    });
    run.finish();
}

/// So many servers, of which so many start at the same time.
async fn connect<P: Peer>(peer: &Arc<P>, count: usize, at_once: usize) -> Vec<P::Connection> {
    let mut tasks = JoinSet::new();
    for task in 0..at_once {
        let peer = Arc::clone(peer);
        let share = (count + task) / at_once;
        tasks.spawn(async move {
            let mut connections = Vec::with_capacity(share);
            for _ in 0..share {
                connections.push(peer.connect().await);
            }
            connections
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Ends all at once, and returns when the last one has its proof.
async fn end<P: Peer>(peer: &Arc<P>, connections: Vec<P::Connection>) {
    let mut tasks = JoinSet::new();
    for connection in connections {
        let peer = Arc::clone(peer);
        tasks.spawn(async move { peer.close(connection).await });
    }
    tasks.join_all().await;
}
