//! Requests in flight.

use super::*;

fn without_key(number: u64, method: Method) -> FromHost {
    let FromHost::Request(request) = request(number, method, None) else {
        unreachable!()
    };
    let key = None;
    FromHost::Request(Request { key, ..request })
}

#[test]
fn answers_to_handshakes_and_lists_are_of_interest() {
    let mut relay = Relay::new(policy());
    relay.on_host(secs(0), &line("init"), without_key(0, Method::Initialize));
    let list = request(1, Method::List("tools"), None);
    relay.on_host(secs(0), &line("list"), list);
    relay.on_host(secs(0), &line("call"), call(2));
    let interest = [0, 1, 2, 3].map(|number| relay.is_of_interest(&id(number)));
    assert_eq!(interest, [true, true, false, false]);
    // The handshake is repeated to the next server by the relay itself.
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    assert!(relay.is_of_interest(&id(0)));
}

#[test]
fn a_handshake_cannot_be_cancelled() {
    let mut relay = Relay::new(policy());
    relay.on_host(secs(0), &line("init"), request(0, Method::Initialize, None));
    relay.on_host(secs(0), &line("call"), call(2));
    for number in [0, 2] {
        relay.on_host(secs(0), b"n\n", FromHost::Cancelled(id(number)));
    }
    let in_flight = [0, 2].map(|number| relay.flight.has(&id(number)));
    assert_eq!(in_flight, [true, false]);
}

#[test]
fn a_queued_level_or_list_is_not_repeated_beside_it() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    let level = Method::SetLevel { is_valid: true };
    relay.on_host(secs(1), &line("level"), request(10, level, None));
    let list = request(1, Method::List("tools"), None);
    relay.on_host(secs(1), &line("list"), list);
    let todo = relay.on_server(secs(1), answer(0, Some(known(0))));
    let queued = Action::ToServer(b"call\nlevel\nlist\n".as_slice().into());
    assert_eq!(todo[1..], [tell("initialized"), queued]);
}

#[test]
fn lists_are_renewed_without_a_handshake() {
    let mut relay = Relay::new(policy());
    let list = request(1, Method::List("tools"), Some(known(7)));
    assert_eq!(relay.on_host(secs(0), &line("list"), list), [cached(1)]);
    let todo = relay.on_host(secs(1), &line("call"), call(2));
    assert_eq!(todo, [Action::Start, tell("call"), tell("list")]);
    // Not while a new handshake is queued: the list is of the old one.
    let mut relay = asleep();
    let todo = relay.on_host(secs(1), &line("new"), request(5, Method::Initialize, None));
    assert_eq!(todo, [Action::Start, tell("new")]);
}

/// An answer that is not a handshake's.
fn silent() -> Answer {
    Answer {
        has_logging: false,
        version: None,
        ..known(7)
    }
}

/// A relay without a cache: `initialize` 0, a list 1 and `server/discover` 2 are answered by the server.
fn answered(discovered: FromServer) -> (Relay, Vec<Action>) {
    let mut relay = Relay::new(policy());
    let methods = [Method::Initialize, Method::List("tools"), Method::Discover];
    for (number, method) in (0..).zip(methods) {
        relay.on_host(secs(0), &line("asked"), request(number, method, None));
    }
    relay.on_server(secs(0), answer(0, Some(known(0))));
    relay.on_server(secs(0), answer(1, Some(silent())));
    let todo = relay.on_server(secs(0), discovered);
    (relay, todo)
}

#[test]
fn what_a_server_has_answered_is_known_to_its_successor() {
    let (mut relay, _) = answered(answer(2, Some(silent())));
    assert_eq!(relay.on_gone(secs(1), "it ended"), []);
    let level = Method::SetLevel { is_valid: true };
    let todo = relay.on_host(secs(1), &line("level"), request(10, level, None));
    assert_eq!(
        says(&todo),
        ["{\"jsonrpc\":\"2.0\",\"id\":10,\"result\":{}}\n"]
    );
    relay.on_host(secs(1), &line("call"), call(3));
    let todo = relay.on_server(secs(1), answer(0, Some(known(0))));
    let told = todo.iter().filter(|it| **it == tell("asked"));
    assert_eq!(told.count(), 2, "{todo:?}");
}

#[test]
fn only_final_errors_of_a_discovery_are_kept() {
    for (code, is_kept) in [
        (-32601, true),
        (-32022, true),
        (-32000, false),
        (32601, false),
    ] {
        let (mut relay, todo) = answered(refused(2, code));
        assert_eq!(todo.contains(&stored(2)), is_kept, "{code}");
        let list = request(5, Method::List("tools"), None);
        relay.on_host(secs(1), &line("list"), list);
        assert_eq!(relay.on_server(secs(1), refused(5, code)), [Action::Pass]);
    }
}

#[test]
fn a_question_that_the_server_has_cancelled_is_not_answered() {
    let mut relay = running();
    let question = FromServer::Request(id(8), Box::from(&b"8"[..]));
    assert_eq!(relay.on_server(secs(3), question), [Action::Pass]);
    let cancelled = FromServer::Cancelled(id(8));
    assert_eq!(relay.on_server(secs(4), cancelled), [Action::Pass]);
    assert_eq!(
        relay.on_host(secs(5), &line("late"), FromHost::Response(id(8))),
        []
    );
    assert_eq!(relay.deadline(), Some(secs(3) + IDLE));
}

fn refused(number: u64, code: i64) -> FromServer {
    FromServer::Response(Response {
        id: id(number),
        is_error: true,
        is_task: false,
        has_next: false,
        answer: Some(Answer {
            error: Some((code, "why".to_owned())),
            ..known(9)
        }),
    })
}

#[test]
fn a_refused_renewal_is_kept_only_of_a_discovery() {
    let renewing = || {
        let mut relay = asleep();
        let discover = request(4, Method::Discover, Some(known(7)));
        assert_eq!(
            relay.on_host(secs(0), &line("discover"), discover),
            [cached(4)]
        );
        relay.on_host(secs(1), &line("call"), call(2));
        relay.on_server(secs(1), answer(0, Some(known(0))));
        relay
    };
    let mut relay = renewing();
    assert_eq!(relay.on_server(secs(1), refused(1, -32601)), []);
    assert_eq!(renewing().on_server(secs(1), refused(4, -32000)), []);
    assert_eq!(relay.on_server(secs(1), refused(4, -32601)), [stored(2)]);
}

#[test]
fn a_handshake_that_is_refused_too_late_changes_nothing() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    assert!(relay.on_time(secs(61)).contains(&Action::Close));
    assert_eq!(relay.on_server(secs(62), refused(0, -32000)), []);
}

#[test]
fn a_ping_is_no_use_and_only_an_older_one_is_answered_by_the_relay() {
    let mut relay = running();
    let ping = || request(9, Method::Ping, None);
    assert_eq!(
        relay.on_host(secs(50), &line("ping"), ping()),
        [Action::Pass]
    );
    assert_eq!(relay.on_server(secs(51), answer(9, None)), [Action::Pass]);
    assert_eq!(relay.deadline(), Some(secs(2) + IDLE));
    let FromHost::Request(request) = ping() else {
        unreachable!()
    };
    let is_modern = true;
    let modern = FromHost::Request(Request {
        is_modern,
        ..request
    });
    let todo = Relay::new(policy()).on_host(secs(0), &line("ping"), modern);
    assert_eq!(todo, [Action::Start, tell("ping")]);
}

#[test]
fn a_notification_waits_only_behind_a_request() {
    let mut relay = asleep();
    let notify = |relay: &mut Relay| {
        assert_eq!(
            relay.on_host(secs(700), &line("n"), FromHost::Notification),
            []
        );
        relay.held()
    };
    assert_eq!(notify(&mut relay), 0);
    let mut relay = running();
    assert_eq!(relay.on_time(secs(2) + IDLE), [Action::Close]);
    assert_eq!(notify(&mut relay), 0);
    relay.on_host(secs(700), &line("x"), call(3));
    assert_eq!(notify(&mut relay), 4);
}
