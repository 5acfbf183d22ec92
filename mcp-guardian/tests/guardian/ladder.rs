//! How a shim ends its server, in virtual time.

use mcp_guardian::ladder::{Ladder, Order};

const MS: u64 = 1_000_000;
const GRACE: u64 = 2_000 * MS;
const STRAGGLERS: u64 = 50 * MS;

#[test]
fn the_end_of_input_begins_a_ladder_of_two_graces() {
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    assert_eq!(ladder.alarm(), None);
    ladder.told(0);
    // SIGINT after it puts nothing off.
    ladder.told(MS);
    assert_eq!(ladder.alarm(), Some(GRACE));
    assert_eq!(ladder.pass(GRACE - 1), Order::Nothing);
    assert_eq!(ladder.pass(GRACE), Order::Terminate);
    ladder.sent();
    assert_eq!(ladder.pass(2 * GRACE - 1), Order::Nothing);
    assert_eq!(ladder.pass(2 * GRACE), Order::Kill);
    assert_eq!(ladder.pass(2 * GRACE + MS), Order::Nothing);
    // Again and again, until the proof.
    let again = ladder.alarm().expect("another time");
    assert_eq!(ladder.pass(again), Order::Kill);
    assert!(ladder.alarm() > Some(again));
}

#[test]
fn the_server_gets_as_many_sigterms_as_its_host_sends_and_one_at_least() {
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    ladder.told(0);
    assert_eq!(ladder.pass(GRACE), Order::Terminate);
    ladder.sent();
    // The host's own, at the same time: the one that was sent already.
    assert_eq!(ladder.terminated(GRACE + MS), Order::Nothing);
    assert_eq!(ladder.terminated(GRACE + 2 * MS), Order::Terminate);
    ladder.sent();
    assert_eq!(ladder.host_gone(GRACE + 3 * MS), Order::Nothing);
    assert_eq!(ladder.alarm(), Some(2 * GRACE), "nothing is put off");
}

#[test]
fn a_host_that_is_gone_is_not_waited_for() {
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    ladder.told(0);
    assert_eq!(ladder.host_gone(MS), Order::Terminate);
    assert_eq!(ladder.alarm(), Some(GRACE + MS));
}

#[test]
fn stragglers_have_a_moment() {
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    ladder.main_exited(0);
    assert_eq!(ladder.alarm(), Some(50 * MS));
    assert_eq!(ladder.pass(50 * MS), Order::Terminate);
    ladder.sent();
    assert_eq!(ladder.pass(50 * MS + GRACE), Order::Kill);
    // Sooner than what was waited for before, and never later.
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    ladder.told(0);
    ladder.main_exited(GRACE - MS);
    assert_eq!(ladder.alarm(), Some(GRACE));
}

#[test]
fn without_a_grace_everything_follows_at_once() {
    let mut ladder = Ladder::new(0, STRAGGLERS);
    assert_eq!(ladder.terminated(5), Order::Terminate);
    ladder.sent();
    assert_eq!(ladder.pass(5), Order::Kill);
    assert_eq!(ladder.terminated(6), Order::Nothing);
}

#[test]
fn a_request_that_was_not_taken_is_made_again() {
    let mut ladder = Ladder::new(GRACE, STRAGGLERS);
    assert_eq!(ladder.terminated(0), Order::Terminate);
    ladder.refused(0);
    assert_eq!(ladder.pass(MS), Order::Nothing);
    let again = ladder.alarm().expect("another time");
    assert!(again < GRACE);
    assert_eq!(ladder.pass(again), Order::Terminate);
    ladder.sent();
    assert_eq!(ladder.alarm(), Some(GRACE), "nothing was put off");
    assert_eq!(ladder.pass(again + 20 * MS), Order::Nothing);
}
