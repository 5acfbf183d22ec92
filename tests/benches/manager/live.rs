//! The cost of 1,000 idle servers for the host.

use std::time::Duration;

use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::fleet::ServerPool;
use mcp_lifecycle_measure::{Figure, Run};

use crate::common::{Options, echo, launcher, resident};

pub(crate) async fn run(run: &mut Run, options: &Options) {
    let count = options.scaled(1000);
    let launcher = launcher();
    let pool = ServerPool::builder("bench").max_live(count + 1).build();
    // Threads and buffers that everybody shares are there before we count.
    drop(
        pool.acquire(&echo(&launcher, "first", 0))
            .await
            .expect("a lease"),
    );
    let (memory, census) = (resident(), Census::take());
    for n in 0..count {
        drop(
            pool.acquire(&echo(&launcher, "echo", n))
                .await
                .expect("a lease"),
        );
    }
    let (memory, after) = (resident().saturating_sub(memory), Census::take());
    let per = |total: usize| total as f64 / count as f64;
    let kib = per(memory) / 1024.0;
    let fds = per(after.fd_count().saturating_sub(census.fd_count()));
    let threads = after.thread_count().saturating_sub(census.thread_count());
    for (what, value, unit, bar) in [
        ("host memory of each", kib, "KiB", 64.0),
        ("descriptors of each", fds, "", 5.0),
        ("threads of all", threads as f64, "", 0.0),
    ] {
        let name = format!("{count} idle servers, {what}");
        run.figure(Figure::ours(name, value, unit).at_most(bar));
    }
    pool.shutdown(Duration::from_secs(120))
        .await
        .expect("a proof");
}
