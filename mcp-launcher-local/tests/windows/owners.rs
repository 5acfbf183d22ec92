//! Hosts that are killed at random instants of their launches.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtest_mimic::Trial;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};

use crate::alive::{Alive, Living};
use crate::cases::{launch, spec, trial};
use crate::fixture::{ADDRESS, MARK};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "owners_killed_at_any_instant_of_their_launches_leave_nothing",
        killed,
    )]
}

/// A host: launches one server after another, and keeps them.
pub(crate) fn own() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let (launcher, spec) = (LocalLauncher::new(), spec_of_a_tree());
        let mut kept = Vec::new();
        loop {
            kept.push(launcher.launch(&spec, &LaunchContext::new()).await.unwrap());
        }
    });
}

fn spec_of_a_tree() -> ServerSpec {
    let program = std::env::current_exe().unwrap();
    let builder = ServerSpec::builder("tree", program);
    builder
        .args([MARK, "tree"])
        .pass_env(ADDRESS)
        .build()
        .unwrap()
}

/// A process that is one.
pub(crate) fn owner(alive: &Alive) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([MARK, "owner"])
        .env(ADDRESS, alive.address().to_string())
        .stdin(Stdio::null());
    command.spawn().unwrap()
}

/// How many are killed: 200, or `MCP_WINDOWS_OWNERS`.
fn rounds() -> usize {
    let given = std::env::var("MCP_WINDOWS_OWNERS").ok();
    given.map_or(200, |given| given.parse().unwrap())
}

async fn killed() {
    // Whoever lives is seen to live: a test that could not fail would be none.
    let alive = Alive::new();
    let server = launch(&spec("deaf", Some(&alive))).await;
    let witness = alive.next();
    assert!(witness.lives());
    server.terminator.kill_now();
    witness.ends();
    let given = std::env::var("MCP_WINDOWS_SEED").ok();
    let chosen = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_micros() as u64
    };
    let seed = given.map_or_else(chosen, |seed| seed.parse().unwrap());
    // From nothing to the second server's processes, on this machine and in this hour.
    let begun = Instant::now();
    let mut one = owner(&alive);
    let living: Vec<_> = (0..4).map(|_| alive.next()).collect();
    let longest = begun.elapsed();
    one.kill().unwrap();
    one.wait().unwrap();
    living.into_iter().for_each(Living::ends);
    println!("MCP_WINDOWS_SEED={seed}, at most {longest:?}");
    let mut random = seed | 1;
    let mut processes = 0;
    for _ in 0..rounds() {
        let alive = Alive::new();
        let mut owner = owner(&alive);
        // xorshift
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(longest.mul_f64((random % 1024) as f64 / 1024.0));
        owner.kill().unwrap();
        owner.wait().unwrap();
        // Nobody starts any more: who was to report has done so.
        while let Some(process) = alive.next_within(Duration::from_millis(20)) {
            process.ends();
            processes += 1;
        }
    }
    assert!(processes > 0 || rounds() < 20, "nobody was ever started");
    println!("{} owners, {processes} processes, 0 left", rounds());
}
