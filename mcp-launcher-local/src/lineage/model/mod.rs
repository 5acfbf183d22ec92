//! The model test of a lineage: random schedules, in a world without processes, of what XNU would tell.
//!
//! The decisions are the real ones; the world forks, executes, exits, gives orphans to its first process, and
//! reaps, also between any two of our system calls. What has to hold is in `checks`. Rules, and the ways to ask,
//! can be replaced by wrong ones, which has to be noticed.

mod checks;
mod edge;
mod faults;
#[path = "../../../../tests/src/random.rs"]
#[expect(dead_code, unreachable_pub, reason = "the kit uses the rest")]
#[cfg_attr(
    target_os = "linux",
    expect(clippy::duplicate_mod, reason = "another model uses it as well")
)]
pub(super) mod random;
mod world;

use self::edge::{Edge, Ways};
use self::random::Random;
use self::world::World;
use super::Lineage;
use super::rules::{RULES, Rules};

/// Steps of the life of a server, before its end.
const STEPS: u64 = 12;
/// How often the end is asked for; after each the world goes on.
const ENDS: usize = 2;

/// Runs one schedule; says what went wrong, and with a trace how it came to that.
fn run(seed: u64, rules: Rules, ways: Ways, trace: Option<Vec<String>>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random);
    world.trace = trace;
    let mut lineage = Lineage::of(world.server_seen()).with_rules(rules);
    schedule(&mut lineage, &mut Edge::new(&mut world, &mut random, ways)).map_err(|wrong| {
        let trace = world.trace.take().unwrap_or_default().join("\n  ");
        format!("{wrong}\n  {trace}\n{:#?}\n{lineage:#?}", world.processes)
    })
}

fn schedule(lineage: &mut Lineage, edge: &mut Edge<'_>) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    lineage.tend(edge).map_err(failed)?;
    for _ in 0..STEPS {
        edge.world.live(edge.random);
        if edge.world.has_news && edge.random.percent(40) {
            edge.world.has_news = false;
            lineage.tend(edge).map_err(failed)?;
            edge.verdict()?;
        }
        if edge.random.percent(2) {
            lineage.ask_to_end(edge, 0).map_err(failed)?;
            edge.verdict()?;
        }
    }
    edge.is_quiet = true;
    while std::mem::take(&mut edge.world.has_news) {
        lineage.tend(edge).map_err(failed)?;
    }
    edge.verdict()?;
    checks::everybody_is_known(edge.world, lineage)?;
    edge.is_quiet = false;
    for _ in 0..ENDS {
        edge.begin_end();
        lineage.end(edge).map_err(failed)?;
        edge.verdict()?;
        for _ in 0..edge.random.below(6) {
            edge.world.live(edge.random);
        }
    }
    edge.is_quiet = true;
    for _ in 0..ENDS {
        edge.begin_end();
        lineage.end(edge).map_err(failed)?;
        edge.verdict()?;
    }
    checks::nobody_is_left(edge.world)?;
    checks::the_dead_are_forgotten(edge.world, lineage)
}

/// Runs so many schedules; the seed of the first one can be set.
fn explore(schedules: u64, rules: Rules, ways: Ways) -> Result<(), String> {
    explore_from(0, schedules, rules, ways)
}

fn explore_from(first: u64, schedules: u64, rules: Rules, ways: Ways) -> Result<(), String> {
    let seed = std::env::var("MCP_MODEL_SEED").ok();
    let first = seed.and_then(|seed| seed.parse().ok()).unwrap_or(first);
    for seed in first..first + schedules {
        if run(seed, rules, ways, None).is_err() {
            let wrong = run(seed, rules, ways, Some(Vec::new()));
            return wrong.map_err(|wrong| format!("MCP_MODEL_SEED={seed}: {wrong}"));
        }
    }
    Ok(())
}

/// One half of the 100,000 schedules: two tests run side by side.
fn no_stranger_is_ended_and_who_is_linked_or_marked_is(half: u64) {
    if let Err(wrong) = explore_from(half * 50_000, 50_000, RULES, Ways::default()) {
        panic!("{wrong}");
    }
}

#[test]
fn no_stranger_is_ended_and_who_is_linked_or_marked_is_in_the_first_half() {
    no_stranger_is_ended_and_who_is_linked_or_marked_is(0);
}

#[test]
fn no_stranger_is_ended_and_who_is_linked_or_marked_is_in_the_second_half() {
    no_stranger_is_ended_and_who_is_linked_or_marked_is(1);
}
