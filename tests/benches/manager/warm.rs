//! A warm lease against a cold start.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::fleet::ServerPool;

use crate::common::{Options, echo, launcher, median, verdict};

pub(crate) async fn run(options: &Options) {
    let launcher = launcher();
    let pool = ServerPool::builder("bench").build();
    let mut cold = Vec::new();
    for version in 0..options.scaled(50) {
        let server = echo(&launcher, "echo", version);
        let begun = Instant::now();
        let lease = pool.acquire(&server).await.expect("a lease");
        cold.push(begun.elapsed());
        drop(lease);
    }
    let server = echo(&launcher, "echo", 0);
    let mut warm = Vec::new();
    for _ in 0..options.scaled(200_000) {
        let begun = Instant::now();
        drop(pool.acquire(&server).await.expect("a lease"));
        warm.push(begun.elapsed());
    }
    pool.shutdown(Duration::from_secs(60))
        .await
        .expect("a proof");
    let (cold, warm) = (median(&mut cold), median(&mut warm));
    let ratio = cold.as_secs_f64() / warm.as_secs_f64();
    let limit = Duration::from_micros(5);
    verdict(
        "warm acquire + release p50 under 5 us",
        warm < limit,
        format_args!("{warm:.2?}"),
    );
    verdict(
        "500x faster than a cold start",
        ratio >= 500.0,
        format_args!("{ratio:.0}x ({cold:.2?})"),
    );
}
