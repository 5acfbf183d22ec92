//! Hosts that are killed at random instants of their launches.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use crate::orphans::{end, ledgers, reap, start_host};
use crate::stage::{LIMIT, Stage, leaves, perform, plays};

#[test]
fn a_host_killed_at_any_instant_of_its_launches_leaves_nothing() {
    perform("instants::random_instants");
}

#[test]
#[ignore = "a role"]
fn random_instants() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut random = std::process::id();
    for round in 0..50 {
        let mut host = start_host(&stage, &["double-fork"; 6], round % 2 == 0);
        // It runs, and is about to launch.
        let mut line = String::new();
        let mut output = BufReader::new(host.stdout.take().unwrap());
        while !line.contains("running 1 test") {
            line.clear();
            output.read_line(&mut line).unwrap();
        }
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The random instant is the experiment: nothing is waited for here.
        std::thread::sleep(Duration::from_micros(u64::from(random >> 16) % 25_000));
        end(host);
        // A child that has not executed yet keeps the ledger locked, and its
        // host looks alive, for as long as it takes to execute.
        let until = Instant::now() + LIMIT;
        loop {
            let report = reap(&stage);
            assert!(report.failed.is_empty(), "round {round}: {report:?}");
            if ledgers() == 0 {
                break;
            }
            assert!(Instant::now() < until, "round {round}: {report:?}");
        }
        stage.nobody_is_left();
        assert!(leaves().is_empty(), "round {round}: {:?}", leaves());
    }
}
