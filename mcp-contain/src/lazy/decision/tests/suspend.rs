//! A server that reads nothing after a suspend.

use super::*;

const CPU: Duration = Duration::from_millis(30);
const READ: Work = (100, 0, CPU);
/// The same, with a request that it has not read.
const UNREAD: Work = (100, 50, CPU);

/// A relay with a request since a suspend, at 10 s.
fn doubtful() -> Relay {
    let mut relay = running();
    let deadline = relay.deadline();
    relay.on(secs(9), Event::Resumed);
    assert_eq!(relay.deadline(), deadline, "nothing is in flight");
    let todo = relay.on_host(secs(10), &line("a"), call(3));
    assert_eq!(todo, [Action::Look, Action::Pass]);
    assert_eq!(relay.on(secs(10), Event::Looked(Some(READ))), []);
    assert_eq!(relay.deadline(), Some(secs(55)));
    relay
}

/// Returns the actions that a second look leads to.
fn judged(mut relay: Relay, work: Option<Work>) -> Vec<Action> {
    assert_eq!(relay.on_time(secs(54)), []);
    assert_eq!(relay.on_time(secs(55)), [Action::Look]);
    relay.on(secs(55), Event::Looked(work))
}

#[test]
fn a_server_that_neither_reads_nor_works_is_restarted() {
    let todo = judged(doubtful(), Some(UNREAD));
    assert_eq!((todo.len(), todo.last()), (2, Some(&Action::Close)));
    assert!(matches!(todo[0], Action::ToHost(_)), "the error");
}

#[test]
fn one_that_reads_or_works_or_is_unknown_is_left() {
    let (read, works) = ((101, 50, CPU), (100, 50, secs(1)));
    for work in [None, Some(READ), Some(read), Some(works)] {
        assert_eq!(judged(doubtful(), work), [], "{work:?}");
    }
    let mut relay = running();
    relay.on(secs(9), Event::Resumed);
    relay.on_host(secs(10), &line("a"), call(3));
    relay.on(secs(10), Event::Looked(None));
    assert_eq!(relay.deadline(), None, "its work before is not known");
}

#[test]
fn whatever_it_says_ends_the_doubt() {
    let mut relay = doubtful();
    relay.on_server(secs(11), FromServer::Other);
    assert_eq!(relay.deadline(), None);
    assert_eq!(relay.on_time(secs(60)), []);
}

#[test]
fn a_request_that_it_may_be_working_on_is_waited_for() {
    let mut relay = running();
    relay.on_host(secs(5), &line("a"), call(3));
    relay.on(secs(9), Event::Resumed);
    let todo = relay.on_host(secs(10), &line("b"), call(4));
    assert_eq!(todo, [Action::Pass]);
    assert_eq!(relay.deadline(), None);
    // Both are given up by the host: the next one counts.
    relay.on_host(secs(11), &line("x"), FromHost::Cancelled(id(3)));
    relay.on_host(secs(11), &line("y"), FromHost::Cancelled(id(4)));
    let todo = relay.on_host(secs(12), &line("c"), call(5));
    assert_eq!(todo, [Action::Look, Action::Pass]);
}

#[test]
fn a_request_that_is_given_up_is_not_counted() {
    let mut relay = doubtful();
    relay.on_host(secs(20), &line("x"), FromHost::Cancelled(id(3)));
    assert_ne!(relay.deadline(), Some(secs(55)));
    let todo = relay.on_host(secs(30), &line("b"), call(4));
    assert_eq!(todo, [Action::Look, Action::Pass]);
    relay.on(secs(30), Event::Looked(Some(UNREAD)));
    assert_eq!(relay.deadline(), Some(secs(75)));
}

#[test]
fn without_a_suspend_or_a_server_nothing_is_looked_at() {
    let mut relay = running();
    let todo = relay.on_host(secs(10), &line("a"), call(3));
    assert_eq!(todo, [Action::Pass]);
    let mut relay = asleep();
    relay.on(secs(1), Event::Resumed);
    let todo = relay.on_host(secs(1), &line("a"), call(3));
    assert!(!todo.contains(&Action::Look));
    // A successor was not there before the suspend.
    let mut relay = doubtful();
    relay.on_gone(secs(11), "it ended");
    relay.on_host(secs(12), &line("a"), call(4));
    relay.on_server(secs(12), answer(0, Some(known(0))));
    assert_ne!(relay.deadline(), Some(secs(55)));
}

#[test]
fn a_server_with_a_task_is_left() {
    let mut relay = running();
    relay.on_host(secs(3), b"x", request(9, Method::Lasting, None));
    relay.on_server(secs(3), answer(9, None));
    relay.on(secs(9), Event::Resumed);
    let todo = relay.on_host(secs(10), &line("a"), call(3));
    assert_eq!(todo, [Action::Pass]);
}
