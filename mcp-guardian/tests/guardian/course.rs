//! The course of a guardian, by the events that it sees.

#[expect(
    dead_code,
    clippy::manual_unwrap_or_default,
    reason = "the guardian uses the rest, and links no library"
)]
#[path = "../../guardian-bin/course.rs"]
mod real;

use real::Course;

#[test]
fn without_a_grace_the_end_of_the_host_is_an_order_to_kill() {
    let mut course = Course::new();
    assert!(!course.host_gone(100, 0));
    assert!(course.is_round_due(100));
}

#[test]
fn a_grace_begins_with_one_request_and_ends_with_killing() {
    let mut course = Course::new();
    assert!(course.host_gone(100, 50));
    // Said again by the socket, after the pidfd.
    assert!(!course.host_gone(120, 50));
    assert_eq!(course.alarm(), Some(150));
    course.pass(149);
    assert!(!course.is_round_due(149));
    course.pass(150);
    assert!(course.is_round_due(150));
}

#[test]
fn who_was_asked_before_is_not_asked_again() {
    let mut course = Course::new();
    course.ask();
    assert!(!course.host_gone(100, 50));
    assert_eq!(course.alarm(), Some(150));
}

#[test]
fn an_order_to_kill_ends_a_grace_and_none_begins_after_it() {
    let mut course = Course::new();
    assert!(course.host_gone(100, 50));
    course.kill();
    assert!(course.is_round_due(100));
    let mut course = Course::new();
    course.kill();
    assert!(!course.host_gone(100, 50));
    assert!(course.is_round_due(100));
}

#[test]
fn when_nobody_is_left_there_is_no_grace_to_wait_for() {
    let mut course = Course::new();
    assert!(course.host_gone(100, 50));
    assert!(course.none_is_left());
    assert_eq!(course.alarm(), None);
    assert!(course.is_done());
}
