//! The course of a guardian, by the events that it sees.

#[expect(
    clippy::manual_unwrap_or_default,
    reason = "the guardian links no library"
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

/// One of the events that may come next, a unit of time after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Asked,
    HostGone {
        grace: u64,
    },
    Ordered,
    Reaped,
    MainExited,
    NoneLeft,
    /// A round of killing, if it is due.
    Round {
        reached: usize,
    },
    /// No event but the clock, by this much.
    Time(u64),
}

const GRACE: u64 = 3_000_000;
/// The pauses between effective rounds, and the longest between others.
const FIRST: u64 = 500_000;
const BUSY: u64 = 1_000_000;
const IDLE: u64 = 100_000_000;

const INPUTS: [Input; 11] = [
    Input::Asked,
    Input::HostGone { grace: 0 },
    Input::HostGone { grace: GRACE },
    Input::Ordered,
    Input::Reaped,
    Input::MainExited,
    Input::NoneLeft,
    Input::Round { reached: 0 },
    Input::Round { reached: 2 },
    Input::Time(FIRST),
    Input::Time(GRACE),
];

/// The state as the model sees it, by what has happened.
#[derive(Debug, Clone)]
struct Seen {
    course: Course,
    now: u64,
    /// SIGTERM was sent.
    asked: bool,
    forced: bool,
    orphaned: bool,
    exited: bool,
    done: bool,
    until: Option<u64>,
    /// The time of the next round; the pause after it; those that it reached and are not reaped.
    next: u64,
    pause: u64,
    left: Option<usize>,
    progress: bool,
}

impl Seen {
    fn new() -> Self {
        Self {
            course: Course::new(),
            now: 7,
            asked: false,
            forced: false,
            orphaned: false,
            exited: false,
            done: false,
            until: None,
            next: 0,
            pause: FIRST,
            left: None,
            progress: true,
        }
    }

    fn killing(&self) -> bool {
        self.forced && !self.done
    }

    fn is_due(&self) -> bool {
        self.killing() && (self.left == Some(0) || self.now >= self.next)
    }

    /// Returns whether the event can come now.
    fn follow(&mut self, input: Input) -> bool {
        self.now += 1;
        let (course, now) = (&mut self.course, self.now);
        match input {
            Input::Asked if !self.asked => {
                course.ask();
                self.asked = true;
            }
            Input::HostGone { grace } => {
                let is_first = grace > 0 && !self.forced && !self.done && self.until.is_none();
                assert_eq!(course.host_gone(now, grace), is_first && !self.asked);
                self.orphaned = true;
                self.forced |= grace == 0;
                self.asked |= is_first;
                self.until = self.until.or(is_first.then(|| now + grace));
            }
            Input::Ordered => {
                course.kill();
                self.forced = true;
            }
            Input::Reaped => {
                course.reaped();
                if self.killing() {
                    self.progress = true;
                    self.left = self.left.map(|left| left.saturating_sub(1));
                }
            }
            Input::MainExited => {
                let status = if self.exited { 9 } else { 256 };
                assert_eq!(course.main_exited(status), !self.exited);
                self.exited = true;
            }
            Input::NoneLeft => {
                assert_eq!(course.none_is_left(), !self.done);
                self.done = true;
            }
            Input::Round { reached } => {
                course.round_reached(reached, now);
                if self.killing() {
                    self.left = (reached > 0).then_some(reached);
                    self.next = now + self.pause;
                    self.pause = (self.pause * 2).min(if self.progress { BUSY } else { IDLE });
                    self.progress = false;
                }
            }
            Input::Time(more) => {
                self.now += more;
                course.pass(self.now);
                let is_over = self.until.is_some_and(|until| self.now >= until);
                self.forced |= is_over && !self.done;
            }
            Input::Asked => return false,
        }
        true
    }

    fn check(&self, order: &[Input]) {
        let course = &self.course;
        let alarm = match self.killing() {
            _ if self.done => None,
            true => Some(self.next),
            false => self.until,
        };
        assert_eq!(course.alarm(), alarm, "{order:?}");
        assert_eq!(course.is_round_due(self.now), self.is_due(), "{order:?}");
        assert_eq!(course.is_done(), self.done, "{order:?}");
        let means = [self.asked, self.forced, self.orphaned];
        assert_eq!(course.means(), means, "{order:?}");
        assert_eq!(course.is_sweeping(), self.asked || self.forced, "{order:?}");
        assert_eq!(
            course.status(),
            if self.exited { 256 } else { 0 },
            "{order:?}"
        );
    }

    fn follow_all(&self, order: &mut Vec<Input>, reached: &mut usize) {
        *reached += 1;
        if order.len() == 5 {
            return;
        }
        for input in INPUTS {
            let mut next = self.clone();
            order.push(input);
            if next.follow(input) {
                next.check(order);
                next.follow_all(order, reached);
            }
            order.pop();
        }
    }
}

#[test]
fn every_order_of_events_keeps_to_the_course() {
    let mut reached = 0;
    Seen::new().follow_all(&mut Vec::new(), &mut reached);
    println!("{reached} orders of events of a guardian");
    assert!(reached > 100_000, "{reached} orders");
}
