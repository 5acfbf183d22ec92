//! Servers that end, and hosts.

use super::*;

#[test]
fn a_server_that_ended_is_started_at_the_next_request() {
    let mut relay = running();
    relay.host(secs(3), &line("x"), call(3));
    relay.server(
        secs(3),
        FromServer::Request {
            id: id(8),
            text: Box::from(&b"8"[..]),
        },
    );
    let said = says(&relay.gone(secs(3), "it was killed"));
    assert!(
        said[0].contains("notifications/cancelled") && said[0].contains("\"requestId\":8,"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,"),
        "{said:?}"
    );
    assert_eq!(said.len(), 2);
    assert_eq!(
        relay.host(secs(4), b"late", FromHost::Response(id(8))),
        [],
        "nobody has asked"
    );
    assert_eq!(
        relay.host(secs(4), &line("y"), call(4)),
        [Action::Start, tell("init")]
    );
    // The second time in a row, and the third.
    for (now, wait) in [(4, 1), (6, 2)] {
        assert_eq!(says(&relay.gone(secs(now), "it ended")).len(), 1);
        assert_eq!(relay.deadline(), Some(secs(now + wait)));
        assert_eq!(relay.host(secs(now), &line("z"), call(now)), []);
        assert_eq!(relay.time(secs(now + wait)), [Action::Start, tell("init")]);
    }
}

#[test]
fn a_crash_after_a_long_life_is_the_first_in_a_row() {
    let mut relay = running();
    for round in 1..6 {
        let now = round * 1000;
        relay.host(secs(now), &line("x"), call(now));
        assert_eq!(says(&relay.gone(secs(now), "it ended")).len(), 1);
        assert_eq!(relay.deadline(), None, "no wait");
        assert_eq!(
            relay.host(secs(now), &line("y"), call(now + 1)),
            [Action::Start, tell("init")]
        );
        relay.server(secs(now), answer(0, Some(known(0))));
        relay.server(secs(now), answer(1, Some(known(7))));
        relay.server(secs(now), answer(now + 1, None));
    }
}

#[test]
fn a_server_that_leaves_when_it_has_nothing_to_do_has_not_failed() {
    let mut relay = running();
    for now in 10..20 {
        assert_eq!(relay.gone(secs(now), "it ended"), []);
        assert_eq!(
            relay.host(secs(now), &line("y"), call(now)),
            [Action::Start, tell("init")]
        );
        relay.server(secs(now), answer(0, Some(known(0))));
        relay.server(secs(now), answer(1, Some(known(7))));
        relay.server(secs(now), answer(now, None));
    }
}

#[test]
fn without_restart_the_relay_ends_as_its_server() {
    let mut relay = running();
    relay.policy.restart = false;
    relay.host(secs(3), &line("x"), call(3));
    assert_eq!(
        relay.gone(secs(3), "it was killed"),
        [Action::Exit(Exit::AsServer)]
    );
}

#[test]
fn the_end_of_the_host_comes_after_what_it_has_sent_or_after_the_grace() {
    let mut relay = asleep();
    relay.host(secs(1), &line("call"), call(2));
    assert_eq!(relay.host_closed(secs(1)), []);
    assert_eq!(relay.deadline(), Some(secs(1) + GRACE));
    let todo = relay.server(secs(2), answer(0, Some(known(0))));
    assert_eq!(todo[2..], [tell("call"), Action::Close]);
    let todo = relay.gone(secs(3), "it ended");
    assert_eq!(
        (says(&todo).len(), todo.last()),
        (1, Some(&Action::Exit(Exit::AsServer))),
        "the call has no answer"
    );

    let mut relay = asleep();
    relay.host(secs(1), &line("call"), call(2));
    relay.host_closed(secs(1));
    assert_eq!(relay.time(secs(1) + GRACE), [Action::CloseNow]);
    assert_eq!(relay.deadline(), None);

    // It reads: it is not cut off before it has stopped for as long.
    let mut relay = running();
    relay.host_closed(secs(5));
    relay.progress(secs(6));
    assert_eq!(relay.deadline(), Some(secs(6) + GRACE));
    assert_eq!(relay.time(secs(5) + GRACE), []);
    relay.progress(secs(7));
    assert_eq!(relay.time(secs(7) + GRACE), [Action::CloseNow]);

    // It runs, and does not read what it was sent.
    let mut relay = running();
    assert_eq!(relay.host_closed(secs(5)), [Action::Close]);
    assert_eq!(relay.time(secs(5) + GRACE), [Action::CloseNow]);
    assert_eq!(relay.deadline(), None);
}

#[test]
fn a_relay_that_is_told_to_end_while_it_waits_starts_no_server_any_more() {
    let mut relay = running();
    for number in [3, 4] {
        relay.host(secs(3), &line("x"), call(number));
        relay.gone(secs(3), "it was killed");
    }
    let until = relay.deadline().expect("it waits");
    assert_eq!(relay.host(secs(3), &line("y"), call(5)), []);
    let todo = relay.leave();
    assert_eq!(says(&todo).len(), 1, "{todo:?}");
    assert_eq!(todo.last(), Some(&Action::Exit(Exit::Success)));
    assert_eq!(relay.time(until), []);
}

#[test]
fn no_server_is_started_beside_one_of_which_something_may_live() {
    for mut relay in [running(), asleep()] {
        relay.host(secs(3), &line("x"), call(3));
        let todo = relay.lost("it was killed");
        assert!(says(&todo)[0].contains("may live"), "{todo:?}");
        assert_eq!(todo.last(), Some(&Action::Exit(Exit::Unproven)));
        assert!(relay.is_last());
        assert_eq!(relay.time(secs(1000)), []);
    }
}

#[test]
fn an_answer_to_a_dead_server_is_not_given_to_its_successor() {
    let mut relay = running();
    let asks = |number| FromServer::Request {
        id: id(number),
        text: number.to_string().as_bytes().into(),
    };
    relay.server(secs(3), asks(8));
    relay.gone(secs(3), "it was killed");
    relay.host(secs(4), &line("x"), call(4));
    relay.server(secs(4), answer(0, Some(known(0))));
    let todo = relay.server(secs(4), asks(8));
    let [Action::Reply(told)] = &todo[..] else {
        panic!("{todo:?}")
    };
    assert!(told.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"error\""));
    assert_eq!(relay.server(secs(4), asks(9)), [Action::Pass]);
    let late = relay.host(secs(5), &line("late"), FromHost::Response(id(8)));
    assert_eq!(late, [], "it is the dead one's");
    assert_eq!(relay.server(secs(5), asks(8)), [Action::Pass]);
}

#[test]
fn a_refused_handshake_is_forgotten_and_says_why() {
    let mut relay = asleep();
    relay.host(secs(1), &line("call"), call(2));
    let refusal = FromServer::Response(Response {
        id: id(0),
        is_error: true,
        is_task: false,
        has_next: false,
        known: Some(Known {
            error: Some((-32000, "no token".to_owned())),
            ..known(9)
        }),
    });
    let todo = relay.server(secs(2), refusal);
    assert!(todo.contains(&Action::Forget([1; 32])), "{todo:?}");
    assert!(todo.contains(&Action::Forget([3; 32])), "{todo:?}");
    assert!(says(&todo)[0].contains("no token"), "{todo:?}");
}

#[test]
fn a_handshake_that_is_never_answered_has_an_end() {
    let mut relay = asleep();
    relay.host(secs(1), &line("call"), call(2));
    assert_eq!(relay.deadline(), Some(secs(61)));
    let todo = relay.time(secs(61));
    assert!(says(&todo)[0].contains("handshake"), "{todo:?}");
    assert!(todo.contains(&Action::Close));
}

#[test]
fn the_rest_of_a_long_line_goes_where_its_beginning_went() {
    // To a server that runs.
    let mut relay = running();
    assert_eq!(relay.host(secs(3), b"lo", FromHost::Long), [Action::Pass]);
    assert_eq!(relay.host(secs(3), b"ng", FromHost::More), [Action::Pass]);
    relay.gone(secs(3), "it was killed");
    // To nobody, and nobody is started for it.
    assert_eq!(relay.host(secs(3), b"er\n", FromHost::More), []);
    let next = relay.host(secs(4), &line("x"), call(4));
    assert_eq!(next, [Action::Start, tell("init")]);
    let ready = relay.server(secs(4), answer(0, Some(known(0))));
    assert!(ready.contains(&tell("x")), "{ready:?}");
    // To a server that is started for it, also when that was given all else before.
    let mut relay = asleep();
    let started = relay.host(secs(1), b"lo", FromHost::Long);
    assert_eq!(started, [Action::Start, tell("init")]);
    assert_eq!(relay.host(secs(1), b"ng", FromHost::More), []);
    let ready = relay.server(secs(1), answer(0, Some(known(0))));
    assert!(
        ready.contains(&Action::Tell(b"long"[..].into())),
        "{ready:?}"
    );
    assert_eq!(relay.host(secs(1), b"er\n", FromHost::More), [Action::Pass]);
    // To nobody, when what was held is not given to anybody.
    let mut relay = asleep();
    relay.host(secs(1), b"lo", FromHost::Long);
    relay.gone(secs(1), "it was killed");
    assert_eq!(relay.host(secs(1), b"nger\n", FromHost::More), []);
    assert_eq!(relay.held(), 0);
}
