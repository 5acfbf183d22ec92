//! 5,000 refreshes, each of which changes a server: nothing may grow.

use std::time::Duration;

use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::fleet::ServerManager;
use mcp_lifecycle_measure::{Figure, Run, Series};

use crate::common::{Options, echo, launcher, resident};

const SERVERS: usize = 4;
const SAMPLES: usize = 100;

pub(crate) async fn run(run: &mut Run, options: &Options) {
    let cycles = options.scaled(5000);
    let launcher = launcher();
    let manager = ServerManager::new("bench");
    let kinds = [
        ("resident memory", "MiB"),
        ("descriptors", "number"),
        ("threads", "number"),
        ("zombies", "number"),
    ];
    let mut series = kinds.map(|(name, unit)| Series::new(name, "ours", "refreshes", unit));
    for cycle in 0..cycles {
        // Each server changes every fourth cycle.
        let version = |server: usize| (cycle + server) / SERVERS;
        let set = (0..SERVERS).map(|n| echo(&launcher, &format!("s{n}"), version(n)));
        manager.refresh(set).await.expect("a refresh");
        if cycle % (cycles / SAMPLES).max(1) == 0 {
            let census = Census::take();
            let values = [
                resident() as f64 / f64::from(1 << 20),
                census.fd_count() as f64,
                census.thread_count() as f64,
                census.zombie_count() as f64,
            ];
            for (series, value) in series.iter_mut().zip(values) {
                series.add(cycle as f64, value);
            }
        }
    }
    manager
        .shutdown(Duration::from_secs(60))
        .await
        .expect("a proof");
    for series in series {
        // One more of them, or one MiB, between the middle and the end is growth.
        let (first, last) = quarters(&series.points);
        let name = format!(
            "{}, {cycles} refreshes: last quarter less second",
            series.panel
        );
        let second = ("second quarter", first);
        let figure = Figure::beyond(name, last, second, &series.unit);
        run.figure(figure.at_most(1.0));
        run.series(series);
    }
}

/// The means of the second quarter and of the last.
fn quarters(points: &[[f64; 2]]) -> (f64, f64) {
    let quarter = (points.len() / 4).max(1);
    let mean = |points: &[[f64; 2]]| {
        points.iter().map(|[_, y]| y).sum::<f64>() / points.len().max(1) as f64
    };
    let second = points.get(quarter..quarter * 2).unwrap_or(points);
    let last = &points[points.len().saturating_sub(quarter)..];
    (mean(second), mean(last))
}
