//! A warm lease against a cold start.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::fleet::ServerPool;
use mcp_lifecycle_measure::{Figure, Run};

use crate::common::{Options, echo, launcher, median};

pub(crate) async fn run(run: &mut Run, options: &Options) {
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
    let micros = warm.as_secs_f64() * 1e6;
    run.figure(Figure::ours("warm acquire and release p50", micros, "us").at_most(5.0));
    let figure = Figure::ours("a cold start, in warm ones", ratio, "times");
    run.figure(figure.at_least(500.0));
}
