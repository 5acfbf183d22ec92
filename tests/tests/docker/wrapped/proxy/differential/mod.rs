//! The same requests, at random, once straight to the engine and once through
//! the proxy: the answers are the same, and so is what is left in the engine.
//!
//! `MCP_PROXY_REQUESTS` of them, from `MCP_PROXY_SEED`, by several engines where
//! they are many.

mod create;
mod exceptions;
mod normal;
mod others;
mod request;
mod run;
mod tally;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use mcp_launcher_docker::ReapPolicy;

use super::super::policy;
use super::Tracked;
use crate::support::{PrivateEngine, Rig};
use run::Run;
use tally::Tally;

const DEFAULT: u64 = 2000;

/// Requests for which another engine pays: an answer is mostly waited for.
const PER_ENGINE: u64 = 5000;

const MOST_ENGINES: u64 = 4;

/// As many differences are shown before it stops.
const SHOWN: usize = 20;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_requests_have_the_same_answers() {
    if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
        return eprintln!("skipped: MCP_DOCKER_TESTS=skip");
    }
    let requests = number("MCP_PROXY_REQUESTS").unwrap_or(DEFAULT);
    let seed = number("MCP_PROXY_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("{requests} requests, MCP_PROXY_SEED={seed}");
    let work = Arc::new(Work {
        requests,
        seed,
        batches: AtomicU64::new(0),
        tally: Mutex::new(Tally::default()),
    });
    let engines = (requests / PER_ENGINE).clamp(1, MOST_ENGINES);
    join_all((0..engines).map(|_| on_an_engine(&work))).await;
    let tally = work.tally.lock().unwrap();
    println!("{tally}");
    assert!(tally.different.is_empty(), "{}", tally.different.join("\n"));
    assert!(tally.created > 0, "nothing was created");
}

/// State that the engines share.
struct Work {
    requests: u64,
    seed: u64,
    /// Taken, each by one engine.
    batches: AtomicU64,
    tally: Mutex<Tally>,
}

/// Takes batches until enough was asked, or too much was different.
async fn on_an_engine(work: &Arc<Work>) {
    let private = PrivateEngine::start(&[]);
    let rig = Rig::on(private.engine.clone(), "differential");
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let tracked = Tracked::launch(&rig, &tracker).await;
    let engine = rig.engine.host.trim_start_matches("unix://").to_owned();
    let mut run = Run::new(engine, tracked.socket.display().to_string());
    let work = Arc::clone(work);
    let asking = tokio::task::spawn_blocking(move || {
        while !work.is_done() {
            let batch = work.batches.fetch_add(1, Ordering::Relaxed);
            // Any batch can be repeated alone.
            let tally = run.batch(work.seed.wrapping_add(batch));
            work.add(tally);
        }
    });
    asking.await.unwrap();
    tracked.server.end(&policy()).await.unwrap();
}

impl Work {
    fn is_done(&self) -> bool {
        let tally = self.tally.lock().unwrap();
        tally.asked >= self.requests || tally.different.len() >= SHOWN
    }

    fn add(&self, batch: Tally) {
        let mut tally = self.tally.lock().unwrap();
        let before = tally.asked;
        tally.add(batch);
        if before / PER_ENGINE != tally.asked / PER_ENGINE {
            println!("{tally}");
        }
    }
}
