//! The model test of a search: random schedules, in a world without processes, of hosts, servers and strangers.
//!
//! The decisions are the real ones. Hosts launch, nest, are killed and leave their numbers to others; processes fork,
//! execute, wipe or hide their environment, exit and are reaped, also between any two of our system calls. Rules can be
//! replaced by wrong ones, which has to be noticed.

mod checks;
mod edge;
mod faults;
mod world;

use self::edge::Edge;
use self::world::{BOOT, World};
use super::Searcher;
use super::search::{RULES, Rules, Search};
use crate::lineage::model::random::Random;

/// Steps of the world before each search.
const STEPS: u64 = 30;

/// Runs one schedule; says what went wrong, and with a trace how it came to that.
fn run(seed: u64, rules: Rules, trace: Option<Vec<String>>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random);
    world.trace = trace;
    schedule(&mut world, &mut random, rules).map_err(|wrong| {
        let trace = world.trace.take().unwrap_or_default().join("\n  ");
        format!("{wrong}\n  {trace}\n{:#?}", world.processes)
    })
}

fn schedule(world: &mut World, random: &mut Random, rules: Rules) -> Result<(), String> {
    for is_quiet in [false, true] {
        for _ in 0..STEPS {
            world.live(random);
        }
        let expected = match is_quiet {
            true => checks::to_end(world),
            false => Vec::new(),
        };
        let searcher = Searcher {
            this: None,
            pid: world.searcher,
            boot_id: BOOT,
        };
        let mut edge = Edge::new(world, random, is_quiet);
        let report = Search::new(&mut edge, &searcher, rules).run();
        let has_killed = edge.has_killed;
        edge.verdict()?;
        checks::nobody_stays_stopped(world)?;
        let report = match report {
            Ok(report) => report,
            Err(error) if has_killed => return Err(format!("a report is LOST: {error}")),
            // Processes could not be listed.
            Err(_) => continue,
        };
        checks::report_is_true(world, &report)?;
        if is_quiet {
            checks::are_gone(world, &expected)?;
            checks::the_rest_is_said(world, &report)?;
        }
    }
    Ok(())
}

/// Runs so many schedules; the seed of the first one can be set.
fn explore(first: u64, schedules: u64, rules: Rules) -> Result<(), String> {
    let seed = std::env::var("MCP_MODEL_SEED").ok();
    let first = seed.and_then(|seed| seed.parse().ok()).unwrap_or(first);
    for seed in first..first + schedules {
        if run(seed, rules, None).is_err() {
            let wrong = run(seed, rules, Some(Vec::new()));
            return wrong.map_err(|wrong| format!("MCP_MODEL_SEED={seed}: {wrong}"));
        }
    }
    Ok(())
}

/// One half of the 20,000 schedules: two tests run side by side.
fn servers_of_dead_hosts_end_and_nobody_else(half: u64) {
    if let Err(wrong) = explore(half * 10_000, 10_000, RULES) {
        panic!("{wrong}");
    }
}

#[test]
fn servers_of_dead_hosts_end_and_nobody_else_in_the_first_half() {
    servers_of_dead_hosts_end_and_nobody_else(0);
}

#[test]
fn servers_of_dead_hosts_end_and_nobody_else_in_the_second_half() {
    servers_of_dead_hosts_end_and_nobody_else(1);
}
