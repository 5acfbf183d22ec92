//! 5,000 refreshes, each of which changes a server: nothing may grow.

use std::time::Duration;

use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::fleet::ServerManager;

use crate::common::{Options, echo, launcher, resident, verdict};
use crate::plot::{Series, plot};

const SERVERS: usize = 4;
const SAMPLES: usize = 100;

pub(crate) async fn run(options: &Options) {
    let cycles = options.scaled(5000);
    let launcher = launcher();
    let manager = ServerManager::new("bench");
    let mut series =
        ["resident memory, MiB", "descriptors", "threads", "zombies"].map(|name| Series {
            name,
            points: Vec::new(),
        });
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
                series.points.push((cycle as f64, value));
            }
        }
    }
    manager
        .shutdown(Duration::from_secs(60))
        .await
        .expect("a proof");
    let title = format!("{cycles} refreshes of {SERVERS} servers, one changed in each");
    std::fs::write(&options.svg, plot(&title, "refresh", &series)).expect("the plot is written");
    println!("      plot: {}", options.svg);
    for series in &series {
        let (first, last) = series.halves();
        // Noise of a few percent is no trend; a leak of a byte per cycle is.
        let flat = last <= first * 1.05 + 1.0;
        verdict(
            &format!("{} flat over {cycles} refreshes", series.name),
            flat,
            format_args!("{first:.1} in the second quarter, {last:.1} in the last"),
        );
    }
}
