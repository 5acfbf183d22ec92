//! Our client side by side with rmcp's own `TokioChildProcess`: the same Rust
//! echo server, the same runtime, the same run, turn by turn.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench client
//! ```
//!
//! Absolute times say little on a shared machine; the ratios are the result,
//! and the floor (a bare round trip through two pipes) is beside them.

mod floor;
mod peers;
mod stats;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_measure::{Figure, Run, Series};
use peers::{Ours, Peer, Theirs};
use stats::{median, percentile};

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
    let group = Ours::new(
        LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build(),
    );
    let mut run = Run::begin("client");

    if wanted("latency") {
        let floor = floor::round_trip(2000);
        run.figure(Figure::ours(
            "floor: pipe round trip, 200 B",
            floor * 1e6,
            "us",
        ));
        let mut all = Distributions::default();
        for (what, percent, bar) in [("p50", 50, 0.95), ("p99", 99, 1.0)] {
            let (a, b) = sides(
                &runtime,
                &ours,
                ROUNDS,
                &Latency::new(2000, 0, percent, &all),
            );
            let name = format!("call latency {what}, concurrency 1");
            run.figure(Figure::ratio(name, a * 1e6, ("rmcp", b * 1e6), "us").at_most(bar));
        }
        all.write(&mut run, "a call, one at a time");
    }
    if wanted("throughput") {
        let (a, b) = sides(&runtime, &ours, ROUNDS, &Throughput { calls: 6400 });
        let figure = Figure::ratio("calls/s, concurrency 64", 1.0 / a, ("rmcp", 1.0 / b), "/s");
        run.figure(figure.at_least(1.6));
    }
    // Ours or theirs, with what it is compared with, and the bar.
    let mut times = |name: &str, a: f64, b: (&str, f64), bar| {
        run.figure(Figure::ratio(name, a * 1e3, (b.0, b.1 * 1e3), "ms").at_most(bar));
    };
    if wanted("large") {
        let all = Distributions::default();
        let (a, b) = sides(
            &runtime,
            &ours,
            ROUNDS,
            &Latency::new(60, 1 << 20, 50, &all),
        );
        times("1 MiB result p50", a, ("rmcp", b), 0.5);
    }
    if wanted("spawn") {
        let start = &Start { times: 40 };
        let (group_small, b) = sides(&runtime, &group, ROUNDS, start);
        times(
            "spawn to ready, process group",
            group_small,
            ("rmcp", b),
            1.1,
        );
        let (small, b) = sides(&runtime, &ours, ROUNDS, start);
        times("spawn to ready, guardian", small, ("rmcp", b), 1.3);
        let ballast = vec![1u8; 1 << 30];
        let (group_large, _) = sides(&runtime, &group, ROUNDS, start);
        times(
            "1 GiB heap, process group",
            group_large,
            ("no heap", group_small),
            1.2,
        );
        let (large, _) = sides(&runtime, &ours, ROUNDS, start);
        times("1 GiB heap, guardian", large, ("no heap", small), 1.2);
        drop(std::hint::black_box(ballast));
    }
    if wanted("close") {
        let close = &Close { times: 60 };
        let (a, b) = sides(&runtime, &group, ROUNDS, close);
        times("shutdown, process group", a, ("rmcp", b), 1.1);
        let (a, b) = sides(&runtime, &ours, ROUNDS, close);
        times("shutdown, guardian", a, ("rmcp", b), 1.3);
    }
    run.finish();
}

/// Every single call of both sides, over all rounds, in us.
#[derive(Default)]
struct Distributions {
    calls: Mutex<BTreeMap<&'static str, Vec<f64>>>,
}

impl Distributions {
    fn add(&self, side: &'static str, times: &[Duration]) {
        let mut calls = self.calls.lock().unwrap();
        let calls = calls.entry(side).or_default();
        calls.extend(times.iter().map(|time| time.as_secs_f64() * 1e6));
    }

    fn write(&mut self, run: &mut Run, panel: &str) {
        for (side, calls) in self.calls.get_mut().unwrap() {
            run.series(Series::distribution(panel, side, "us", calls));
        }
    }
}

/// One measurement: seconds, as a median over its own repetitions.
trait Measure {
    async fn measure<P: Peer>(&self, peer: &P) -> f64;
}

struct Latency<'a> {
    calls: usize,
    bytes: usize,
    percent: usize,
    all: &'a Distributions,
}

impl<'a> Latency<'a> {
    fn new(calls: usize, bytes: usize, percent: usize, all: &'a Distributions) -> Self {
        Self {
            calls,
            bytes,
            percent,
            all,
        }
    }
}

impl Measure for Latency<'_> {
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
        self.all.add(P::NAME, &times);
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
    what: &M,
) -> (f64, f64) {
    let theirs = Theirs;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
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
    (middle(a), middle(b))
}
