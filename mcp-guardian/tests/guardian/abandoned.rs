//! The abandoned servers of a living host, as pure functions.

#[path = "../../guardian-bin/abandoned.rs"]
mod real;

use real::Stream::{Closed, Open, Other};
use real::{Act, Looks, is_cut_off};

#[test]
fn only_closed_streams_cut_a_process_off() {
    let all = [Closed, Other, Open];
    for number in 0..27 {
        let [input, output, error] = [number / 9, number / 3 % 3, number % 3].map(|at| all[at]);
        let is_closed = number < 3;
        assert_eq!(
            is_cut_off([input, output, error]),
            is_closed && error != Open
        );
    }
}

#[test]
fn the_second_look_asks_and_a_later_one_kills() {
    let mut looks = Looks::default();
    assert_eq!(looks.found(7, 100, 50), Act::Wait);
    assert_eq!(looks.found(7, 110, 50), Act::Ask);
    assert_eq!(looks.found(7, 159, 50), Act::Wait);
    assert_eq!(looks.found(7, 160, 50), Act::Kill);
    assert_eq!(looks.found(7, 170, 50), Act::Kill);
    assert!(looks.reaped(7));
    assert!(!looks.reaped(7), "known once");
    assert_eq!(looks.found(7, 180, 50), Act::Wait, "another process");
}

#[test]
fn without_a_grace_the_third_look_kills() {
    let mut looks = Looks::default();
    let acts = [1, 2, 3].map(|now| looks.found(7, now, 0));
    assert_eq!(acts, [Act::Wait, Act::Ask, Act::Kill]);
}

#[test]
fn each_process_has_its_own_looks() {
    let mut looks = Looks::default();
    assert_eq!(looks.due, 0);
    looks.found(7, 1, 9);
    assert_eq!(looks.found(8, 1, 9), Act::Wait);
    assert!(!looks.reaped(7), "it was not asked");
    // A place that has become free hides no other.
    assert_eq!(looks.found(8, 2, 9), Act::Ask);
    assert_eq!(looks.found(9, 2, 9), Act::Wait);
    assert_eq!(looks.found(8, 11, 9), Act::Kill);
}

#[test]
fn what_has_no_place_waits_for_one() {
    let mut looks = Looks::default();
    for pid in 1..=32 {
        looks.found(pid, 1, 9);
    }
    assert_eq!([2, 3].map(|now| looks.found(99, now, 9)), [Act::Wait; 2]);
    looks.reaped(5);
    let acts = [4, 5].map(|now| looks.found(99, now, 9));
    assert_eq!(acts, [Act::Wait, Act::Ask]);
}
