//! Restarts on request.

use super::*;

const WHY: &str = "the server is restarted before it answered";

impl Relay {
    fn on_restart(&mut self, now: Duration) -> Vec<Action> {
        self.on(now, Event::Restart)
    }
}

fn refused(number: u64) -> Action {
    Action::ToHost(error(number.to_string().as_bytes(), WHY))
}

/// Its successor's handshake is the one that its host has made.
fn begins_again() -> Vec<Action> {
    vec![Action::Start, tell("init")]
}

#[test]
fn a_restarted_server_has_a_successor_at_once() {
    for (lazy, restart) in [(true, true), (true, false), (false, true)] {
        let mut relay = running();
        relay.policy = Policy {
            lazy,
            restart,
            ..relay.policy
        };
        assert_eq!(relay.on_restart(secs(3)), [Action::Close]);
        assert!(!relay.is_last() && !relay.passes());
        assert_eq!(relay.on_restart(secs(3)), [], "once");
        assert_eq!(relay.on_gone(secs(4), "it ended"), begins_again());
        let todo = relay.on_server(secs(4), answer(0, Some(known(0))));
        assert_eq!(todo, [stored(1), tell("initialized"), tell("list")]);
        let todo = relay.on_server(secs(4), answer(1, Some(known(8))));
        assert_eq!(todo[0], stored(3));
        assert_eq!(says(&todo).len(), 1, "the list has changed");
        // The next end is one by itself.
        let todo = relay.on_gone(secs(70), "it ended");
        assert_eq!(todo.is_empty(), restart, "{todo:?}");
    }
}

#[test]
fn requests_in_flight_are_refused_once_and_later_ones_wait() {
    let mut relay = running();
    relay.on_host(secs(3), &line("a"), call(3));
    relay.on_host(secs(3), &line("b"), call(4));
    relay.on_server(secs(3), FromServer::Request(id(9), Box::from(&b"9"[..])));
    let todo = relay.on_restart(secs(3));
    assert_eq!(todo, [refused(3), refused(4), Action::Close]);
    assert_eq!(relay.on_host(secs(3), &line("c"), call(5)), []);
    assert_eq!(relay.on_server(secs(3), answer(3, None)), [], "too late");
    assert_eq!(
        relay.on_server(secs(3), FromServer::Other),
        [Action::Pass],
        "a log line"
    );
    let todo = relay.on_gone(secs(4), "it ended");
    assert_eq!(says(&todo).len(), 1, "its question is cancelled");
    assert_eq!(todo[1..], begins_again());
    let todo = relay.on_server(secs(4), answer(0, Some(known(0))));
    assert_eq!(todo[1..3], [tell("initialized"), tell("c")]);
    assert_eq!(relay.on_server(secs(4), answer(5, None)), [Action::Pass]);
}

#[test]
fn a_server_that_begins_is_replaced_and_the_lines_that_wait_are_kept() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("a"), call(2));
    assert_eq!(relay.on_restart(secs(1)), [Action::Close]);
    assert_eq!(
        relay.on_server(secs(1), answer(0, Some(known(0)))),
        [],
        "its handshake is not continued"
    );
    assert_eq!(relay.on_gone(secs(2), "it ended"), begins_again());
    let todo = relay.on_server(secs(2), answer(0, Some(known(0))));
    assert_eq!(todo[1..3], [tell("initialized"), tell("a")]);
}

#[test]
fn a_subscription_ends_with_a_restarted_server() {
    let mut relay = running();
    relay.on_host(secs(3), b"x", request(9, Method::Lasting, None));
    relay.on_server(secs(3), answer(9, None));
    assert_eq!(relay.deadline(), None);
    relay.on_restart(secs(3));
    relay.on_gone(secs(4), "it ended");
    relay.on_server(secs(4), answer(0, Some(known(0))));
    relay.on_server(secs(4), answer(1, Some(known(7))));
    assert_eq!(relay.deadline(), Some(secs(4) + IDLE), "it may be idle");
    // One that waits for the successor is its own.
    relay.on_restart(secs(5));
    relay.on_host(secs(5), &line("x"), request(10, Method::Lasting, None));
    relay.on_restart(secs(5));
    relay.on_gone(secs(6), "it ended");
    relay.on_server(secs(6), answer(0, Some(known(0))));
    relay.on_server(secs(6), answer(1, Some(known(7))));
    relay.on_server(secs(6), answer(10, None));
    assert_eq!(relay.deadline(), None);
}

#[test]
fn one_that_ends_unused_is_started_again_when_it_is_restarted() {
    let mut relay = running();
    assert_eq!(relay.on_time(secs(2) + IDLE), [Action::Close]);
    assert_eq!(relay.on_restart(secs(3) + IDLE), []);
    assert_eq!(relay.on_gone(secs(4) + IDLE, "it ended"), begins_again());
}

#[test]
fn a_pause_ends_with_a_restart() {
    let mut relay = running();
    for number in [3, 4] {
        relay.on_host(secs(3), &line("a"), call(number));
        relay.on_server(secs(3), answer(0, Some(known(0))));
        relay.on_gone(secs(3), "it ended");
    }
    relay.on_host(secs(3), &line("b"), call(5));
    assert_eq!(relay.deadline(), Some(secs(4)), "it failed twice");
    assert_eq!(relay.on_restart(secs(3)), begins_again());
}

#[test]
fn nothing_is_restarted_that_has_no_successor() {
    assert_eq!(asleep().on_restart(secs(1)), []);
    for end in [Event::HostClosed, Event::Leave, Event::InputClosed] {
        let mut relay = running();
        relay.on(secs(3), end);
        // One that has closed its input is ended for that.
        relay.on_time(secs(4));
        assert_eq!(relay.on_restart(secs(4)), []);
    }
    let mut relay = running();
    relay.on_restart(secs(3));
    assert_eq!(relay.on_host_closed(secs(3)), []);
    assert_eq!(
        relay.on_gone(secs(4), "it ended"),
        [Action::Exit(Exit::Success)]
    );
}

/// A relay with a server that has run for long.
fn grown() -> Relay {
    let mut relay = running();
    relay.started = secs(1);
    relay.policy.lazy = false;
    relay
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn files_that_have_changed_restart_a_server_once_they_are_quiet() {
    let mut relay = grown();
    assert_eq!(relay.deadline(), None);
    relay.on(millis(6000), Event::Changed);
    relay.on(millis(6200), Event::Changed);
    assert_eq!(relay.deadline(), Some(millis(6500)));
    assert_eq!(relay.on_time(millis(6499)), []);
    assert_eq!(relay.on_time(millis(6500)), [Action::Close]);
    assert_eq!(relay.deadline(), Some(millis(8500)), "its grace");
    assert_eq!(relay.on_gone(secs(7), "it ended"), begins_again());
    // They change all the time.
    let mut relay = grown();
    for tenth in 60..160 {
        relay.on(millis(100 * tenth), Event::Changed);
        assert_eq!(relay.on_time(millis(100 * tenth)), []);
    }
    assert_eq!(relay.deadline(), Some(secs(16)));
    assert_eq!(relay.on_time(secs(16)), [Action::Close]);
}

#[test]
fn what_is_in_flight_is_waited_for_and_not_for_ever() {
    let question = || FromServer::Request(id(9), Box::from(&b"9"[..]));
    for (is_asked, is_answered) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut relay = grown();
        match is_asked {
            true => drop(relay.on_server(secs(6), question())),
            false => drop(relay.on_host(secs(6), &line("a"), call(3))),
        }
        relay.on(secs(6), Event::Changed);
        assert_eq!(relay.deadline(), Some(secs(16)));
        assert_eq!(relay.on_time(secs(7)), []);
        if !is_answered {
            let todo = relay.on_time(secs(16));
            assert_eq!(todo.last(), Some(&Action::Close));
            assert_eq!(todo.contains(&refused(3)), !is_asked);
            continue;
        }
        match is_asked {
            true => drop(relay.on_host(secs(8), &line("r"), FromHost::Response(id(9)))),
            false => drop(relay.on_server(secs(8), answer(3, None))),
        }
        assert_eq!(relay.on_time(secs(8)), [Action::Close]);
    }
}

#[test]
fn a_young_server_that_may_have_changed_files_is_started_by_a_request() {
    for (at, is_young) in [(5999, true), (6000, false)] {
        let mut relay = grown();
        relay.on(millis(at - 300), Event::Changed);
        assert_eq!(relay.on_time(millis(at)), [Action::Close]);
        let todo = relay.on_gone(millis(at), "it ended");
        assert_eq!(todo, if is_young { vec![] } else { begins_again() });
        let todo = relay.on_host(secs(7), &line("a"), call(3));
        assert_eq!(todo.contains(&Action::Start), is_young);
    }
}

#[test]
fn a_change_is_forgotten_by_what_starts_later() {
    let mut relay = grown();
    relay.on(secs(9), Event::Changed);
    relay.on_gone(secs(9), "it ended");
    relay.on_host(secs(9), &line("a"), call(3));
    relay.on_server(secs(9), answer(0, Some(known(0))));
    relay.on_server(secs(9), answer(1, Some(known(7))));
    relay.on_server(secs(9), answer(3, None));
    assert_eq!((relay.deadline(), relay.on_time(secs(99))), (None, vec![]));
    // Without a server there is nothing to restart.
    let mut relay = asleep();
    relay.on(secs(9), Event::Changed);
    assert_eq!(relay.on_time(secs(10)), []);
    assert_eq!(relay.deadline(), None);
}
