use super::*;

const HUNT: &[Act] = &[Act::Hunt];
const GONE: &[Act] = &[Act::TellGone, Act::Reap, Act::Leave];

fn running(has_grace: bool) -> Course {
    let mut course = Course::new(has_grace);
    assert_eq!(course.step(Event::Started), [Act::TellStarted, Act::Resume]);
    course
}

#[test]
fn a_program_that_cannot_be_executed_is_told_and_that_is_all() {
    let mut course = Course::new(true);
    assert_eq!(course.step(Event::Failed), [Act::TellFailed, Act::Leave]);
    assert_eq!(course.step(Event::HostGone), []);
    assert_eq!(course.state(), State::Gone);
}

#[test]
fn a_server_whose_host_died_before_it_ran_never_runs() {
    for event in [Event::HostGone, Event::Kill, Event::Terminate] {
        for has_grace in [false, true] {
            let mut course = Course::new(has_grace);
            assert_eq!(course.step(event), []);
            assert_eq!(course.step(Event::Started), [Act::TellStarted, Act::Hunt]);
        }
    }
}

#[test]
fn a_server_that_ends_with_nobody_left_is_reaped_after_two_looks() {
    let mut course = running(false);
    assert!(!course.has_exited());
    assert_eq!(course.step(Event::Exited), [Act::TellExited, Act::Look]);
    assert!(course.has_exited());
    assert_eq!(course.step(Event::Looked(0)), [Act::Look]);
    assert_eq!(course.step(Event::Looked(0)), GONE);
}

#[test]
fn descendants_that_live_keep_the_number_of_a_server_that_has_ended() {
    let mut course = running(false);
    course.step(Event::Exited);
    assert_eq!(course.step(Event::Looked(0)), [Act::Look]);
    assert_eq!(course.step(Event::Looked(1)), []);
    assert_eq!(course.step(Event::Noted), [Act::Look]);
    // One that was between two of the others: from the beginning.
    assert_eq!(course.step(Event::Looked(0)), [Act::Look]);
    assert_eq!(course.step(Event::Kill), HUNT);
    assert_eq!(course.step(Event::Looked(0)), HUNT);
    assert_eq!(course.step(Event::Looked(0)), GONE);
}

#[test]
fn a_server_without_its_host_has_its_grace_and_no_more() {
    let mut course = running(true);
    assert_eq!(course.step(Event::HostGone), [Act::BeginGrace, Act::Ask]);
    assert_eq!(course.step(Event::Noted), [Act::Look]);
    assert_eq!(course.step(Event::GraceOver), HUNT);
    assert_eq!(running(false).step(Event::HostGone), HUNT);
}

#[test]
fn a_hunt_is_given_up_by_nothing() {
    let mut course = running(true);
    assert_eq!(course.step(Event::Kill), HUNT);
    for event in [Event::Terminate, Event::HostGone, Event::GraceOver] {
        assert_eq!(course.step(event), []);
    }
    assert_eq!(course.step(Event::Kill), HUNT);
    assert_eq!(course.step(Event::Noted), HUNT);
    // Nobody lives, and the main process has not been seen to end.
    assert_eq!(course.step(Event::Looked(0)), []);
    assert_eq!(course.step(Event::Exited), [Act::TellExited, Act::Hunt]);
}

/// Everything that can happen, in every order.
fn explore(course: &Course, done: &[Act], seen: &[Event], depth: usize) {
    const ALL: [Event; 10] = [
        Event::Started,
        Event::Failed,
        Event::Noted,
        Event::Exited,
        Event::Terminate,
        Event::Kill,
        Event::HostGone,
        Event::GraceOver,
        Event::Looked(0),
        Event::Looked(3),
    ];
    if depth == 0 {
        return;
    }
    for event in ALL {
        let mut next = course.clone();
        let acts = next.step(event);
        let seen = [seen, &[event]].concat();
        let all = [done, &acts].concat();
        check(course, event, &acts, &all, &seen);
        if !acts.is_empty() || next.is_over != course.is_over {
            explore(&next, &all, &seen, depth - 1);
        }
    }
}

fn check(before: &Course, event: Event, acts: &[Act], all: &[Act], seen: &[Event]) {
    let count = |act| all.iter().filter(|done| **done == act).count();
    let at = |act| all.iter().position(|done| *done == act);
    for once in [
        Act::TellStarted,
        Act::TellFailed,
        Act::TellExited,
        Act::TellGone,
        Act::Resume,
        Act::Reap,
        Act::Leave,
    ] {
        assert!(count(once) <= 1, "{once:?} twice: {seen:?}");
    }
    if before.state() == State::Gone {
        assert_eq!(acts, [], "{seen:?}");
    }
    if acts.contains(&Act::Resume) {
        let unwanted = [Event::Terminate, Event::Kill, Event::HostGone];
        assert!(
            !seen.iter().any(|event| unwanted.contains(event)),
            "{seen:?}"
        );
    }
    if acts.contains(&Act::Reap) {
        assert!(seen.contains(&Event::Exited), "{seen:?}");
        assert_eq!(event, Event::Looked(0), "{seen:?}");
        assert!(at(Act::TellExited) < at(Act::TellGone), "{seen:?}");
        assert!(at(Act::TellGone) < at(Act::Reap), "{seen:?}");
    }
    let has_server = matches!(before.state(), State::Running | State::Hunt);
    if has_server && event == Event::Kill {
        assert_eq!(acts, HUNT, "{seen:?}");
    }
    if before.state() == State::Running && event == Event::HostGone {
        assert!(acts == HUNT || acts.contains(&Act::BeginGrace), "{seen:?}");
    }
    if before.state() == State::Hunt {
        assert!(
            !acts.contains(&Act::Look) && !acts.contains(&Act::Ask),
            "{seen:?}"
        );
    }
}

#[test]
fn whatever_happens_in_whatever_order_nobody_is_let_go() {
    for has_grace in [false, true] {
        explore(&Course::new(has_grace), &[], &[], 7);
    }
}
