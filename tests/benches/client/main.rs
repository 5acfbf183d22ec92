//! Our client side by side with rmcp's own `TokioChildProcess`: the same Rust
//! echo server, the same runtime, the same run, turn by turn.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench client
//! ```
//!
//! Absolute times say little on a shared machine; the ratios are the result,
//! and the floor (a bare round trip through two pipes) is printed beside them.

mod floor;
mod peers;
mod stats;

use std::time::{Duration, Instant};

use mcp_launcher_local::{Isolation, LocalLauncher};
use peers::{Ours, Peer, Theirs};
use stats::{Table, median, millis, percentile};

/// How often each measurement is repeated, turn by turn with the other side.
const ROUNDS: usize = 9;

fn main() {
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ours = Ours::new(LocalLauncher::new());
    let group = Ours::new(LocalLauncher::new().isolation(Isolation::ProcessGroup));
    let spare = Ours::new(LocalLauncher::new().spare_guardians(4));
    let mut table = Table::new("rmcp");

    if wanted("latency") {
        table.floor("pipe round trip, 200 B", floor::round_trip(2000));
        for (what, percent, bar) in [("p50", 50, "<= 0.95"), ("p99", 99, "<= 1.0")] {
            let (a, b) = sides(&runtime, &ours, ROUNDS, |_| Latency {
                calls: 2000,
                bytes: 0,
                percent,
            });
            table.row(&format!("call latency {what}, concurrency 1"), a, b, bar);
        }
    }
    if wanted("throughput") {
        let (a, b) = sides(&runtime, &ours, ROUNDS, |_| Throughput { calls: 6400 });
        table.rate("calls/s, concurrency 64", a, b, ">= 1.6");
    }
    if wanted("large") {
        let (a, b) = sides(&runtime, &ours, ROUNDS, |_| Latency {
            calls: 60,
            bytes: 1 << 20,
            percent: 50,
        });
        table.row("1 MiB result p50", a, b, "<= 0.5");
    }
    if wanted("spawn") {
        let start = |_| Start { times: 40 };
        let (group_small, b) = sides(&runtime, &group, ROUNDS, start);
        table.row("spawn to ready, process group", group_small, b, "<= 1.1");
        let (small, b) = sides(&runtime, &ours, ROUNDS, start);
        table.row("spawn to ready, guardian", small, b, "<= 1.3");
        let (warm, b) = sides(&runtime, &spare, ROUNDS, start);
        table.row("spawn to ready, spare guardian", warm, b, "<= 1.0");
        let ballast = vec![1u8; 1 << 30];
        let (group_large, _) = sides(&runtime, &group, ROUNDS, start);
        table.compare(
            "1 GiB heap, process group",
            group_large,
            group_small,
            "<= 1.2",
        );
        let (large, _) = sides(&runtime, &ours, ROUNDS, start);
        table.compare("1 GiB heap, guardian", large, small, "<= 1.2");
        drop(std::hint::black_box(ballast));
    }
    if wanted("close") {
        let close = |_| Close { times: 60 };
        let (a, b) = sides(&runtime, &group, ROUNDS, close);
        table.row("shutdown, process group", a, b, "<= 1.1");
        let (a, b) = sides(&runtime, &ours, ROUNDS, close);
        table.row("shutdown, guardian", a, b, "<= 1.3");
    }
    print!("{table}");
}

/// One measurement: seconds, as a median over its own repetitions.
trait Measure {
    async fn measure<P: Peer>(&self, peer: &P) -> f64;
}

struct Latency {
    calls: usize,
    bytes: usize,
    percent: usize,
}

impl Measure for Latency {
    async fn measure<P: Peer>(&self, peer: &P) -> f64 {
        let connection = peer.connect().await;
        let mut times = Vec::with_capacity(self.calls);
        for i in 0..self.calls + self.calls / 10 {
            let begun = Instant::now();
            peer.call(&connection, self.bytes).await;
            // The first tenth warms up.
            if i >= self.calls / 10 {
                times.push(begun.elapsed());
            }
        }
        peer.close(connection).await;
        percentile(times, self.percent)
    }
}

struct Throughput {
    calls: usize,
}

impl Measure for Throughput {
    async fn measure<P: Peer>(&self, peer: &P) -> f64 {
        const CONCURRENCY: usize = 64;
        let connection = peer.connect().await;
        peer.call(&connection, 0).await;
        let begun = Instant::now();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..CONCURRENCY {
            let calls = self.calls / CONCURRENCY;
            let caller = peer.caller(&connection);
            callers.spawn(async move {
                for _ in 0..calls {
                    P::call_by(&caller).await;
                }
            });
        }
        callers.join_all().await;
        let took = begun.elapsed();
        peer.close(connection).await;
        took.as_secs_f64() / self.calls as f64
    }
}

struct Start {
    times: usize,
}

impl Measure for Start {
    async fn measure<P: Peer>(&self, peer: &P) -> f64 {
        let mut times = Vec::new();
        for _ in 0..self.times {
            peer.prepare().await;
            let begun = Instant::now();
            let connection = peer.connect().await;
            times.push(begun.elapsed());
            peer.close(connection).await;
        }
        median(times)
    }
}

struct Close {
    times: usize,
}

impl Measure for Close {
    async fn measure<P: Peer>(&self, peer: &P) -> f64 {
        let mut times = Vec::new();
        for _ in 0..self.times {
            let connection = peer.connect().await;
            let begun = Instant::now();
            peer.close(connection).await;
            times.push(begun.elapsed());
        }
        median(times)
    }
}

/// Measures both sides, turn by turn and with the first turn alternating.
fn sides<M: Measure>(
    runtime: &tokio::runtime::Runtime,
    ours: &Ours,
    rounds: usize,
    measure: impl Fn(usize) -> M,
) -> (f64, f64) {
    let theirs = Theirs;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let what = measure(round);
        runtime.block_on(async {
            if round % 2 == 0 {
                a.push(what.measure(ours).await);
                b.push(what.measure(&theirs).await);
            } else {
                b.push(what.measure(&theirs).await);
                a.push(what.measure(ours).await);
            }
        });
    }
    let middle = |v: Vec<f64>| median(v.into_iter().map(Duration::from_secs_f64));
    let result = (middle(a), middle(b));
    eprintln!("measured {} / {}", millis(result.0), millis(result.1));
    result
}
