//! Servers that end, and hosts.

use super::*;

#[test]
fn a_server_that_ended_is_started_at_the_next_request() {
    let mut relay = running();
    relay.on_host(secs(3), &line("x"), call(3));
    relay.on_server(secs(3), FromServer::Request(id(8), Box::from(&b"8"[..])));
    let said = says(&relay.on_gone(secs(3), "it was killed"));
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
        relay.on_host(secs(4), b"late", FromHost::Response(id(8))),
        [],
        "nobody has asked"
    );
    assert_eq!(
        relay.on_host(secs(4), &line("y"), call(4)),
        [Action::Start, tell("init")]
    );
    // The second time in a row, and the third.
    for (now, wait) in [(4, 1), (6, 2)] {
        assert_eq!(says(&relay.on_gone(secs(now), "it ended")).len(), 1);
        assert_eq!(relay.deadline(), Some(secs(now + wait)));
        assert_eq!(relay.on_host(secs(now), &line("z"), call(now)), []);
        assert_eq!(
            relay.on_time(secs(now + wait)),
            [Action::Start, tell("init")]
        );
    }
}

#[test]
fn a_crash_after_a_long_life_is_the_first_in_a_row() {
    let mut relay = running();
    for round in 1..6 {
        let now = round * 1000;
        relay.on_host(secs(now), &line("x"), call(now));
        assert_eq!(says(&relay.on_gone(secs(now), "it ended")).len(), 1);
        assert_eq!(relay.deadline(), None, "no wait");
        assert_eq!(
            relay.on_host(secs(now), &line("y"), call(now + 1)),
            [Action::Start, tell("init")]
        );
        relay.on_server(secs(now), answer(0, Some(known(0))));
        relay.on_server(secs(now), answer(1, Some(known(7))));
        relay.on_server(secs(now), answer(now + 1, None));
    }
}

#[test]
fn a_server_that_leaves_when_it_has_nothing_to_do_has_not_failed() {
    let mut relay = running();
    for now in 10..20 {
        assert_eq!(relay.on_gone(secs(now), "it ended"), []);
        assert_eq!(
            relay.on_host(secs(now), &line("y"), call(now)),
            [Action::Start, tell("init")]
        );
        relay.on_server(secs(now), answer(0, Some(known(0))));
        relay.on_server(secs(now), answer(1, Some(known(7))));
        relay.on_server(secs(now), answer(now, None));
    }
}

#[test]
fn without_restart_the_relay_ends_as_its_server() {
    let mut relay = running();
    relay.policy.restart = false;
    relay.on_host(secs(3), &line("x"), call(3));
    assert_eq!(
        relay.on_gone(secs(3), "it was killed"),
        [Action::Exit(Exit::AsServer)]
    );
}

#[test]
fn the_end_of_the_host_comes_after_what_it_has_sent_or_after_the_grace() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    assert_eq!(relay.on_host_closed(secs(1)), []);
    assert_eq!(relay.deadline(), Some(secs(1) + GRACE));
    let todo = relay.on_server(secs(2), answer(0, Some(known(0))));
    assert_eq!(todo[2..], [tell("call"), Action::Close]);
    let todo = relay.on_gone(secs(3), "it ended");
    assert_eq!(
        (says(&todo).len(), todo.last()),
        (1, Some(&Action::Exit(Exit::AsServer))),
        "the call has no answer"
    );

    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    relay.on_host_closed(secs(1));
    assert_eq!(relay.on_time(secs(1) + GRACE), [Action::CloseNow]);
    assert_eq!(relay.deadline(), None);

    // It reads: it is not cut off before it has stopped for as long.
    let mut relay = running();
    relay.on_host_closed(secs(5));
    relay.on_progress(secs(6));
    assert_eq!(relay.deadline(), Some(secs(6) + GRACE));
    assert_eq!(relay.on_time(secs(5) + GRACE), []);
    relay.on_progress(secs(7));
    assert_eq!(relay.on_time(secs(7) + GRACE), [Action::CloseNow]);

    // It runs, and does not read what it was sent.
    let mut relay = running();
    assert_eq!(relay.on_host_closed(secs(5)), [Action::Close]);
    assert_eq!(relay.on_time(secs(5) + GRACE), [Action::CloseNow]);
    assert_eq!(relay.deadline(), None);
}

#[test]
fn a_relay_that_is_told_to_end_while_it_waits_starts_no_server_any_more() {
    let mut relay = running();
    for number in [3, 4] {
        relay.on_host(secs(3), &line("x"), call(number));
        relay.on_gone(secs(3), "it was killed");
    }
    let until = relay.deadline().expect("it waits");
    assert_eq!(relay.on_host(secs(3), &line("y"), call(5)), []);
    let todo = relay.on_leave();
    assert_eq!(says(&todo).len(), 1, "{todo:?}");
    assert_eq!(todo.last(), Some(&Action::Exit(Exit::Success)));
    assert_eq!(relay.on_time(until), []);
}

#[test]
fn no_server_is_started_beside_one_of_which_something_may_live() {
    for mut relay in [running(), asleep()] {
        relay.on_host(secs(3), &line("x"), call(3));
        let todo = relay.on_lost("it was killed");
        assert!(says(&todo)[0].contains("may live"), "{todo:?}");
        assert_eq!(todo.last(), Some(&Action::Exit(Exit::Unproven)));
        assert!(relay.is_last());
        assert_eq!(relay.on_time(secs(1000)), []);
    }
}

#[test]
fn an_answer_to_a_dead_server_is_not_given_to_its_successor() {
    let mut relay = running();
    let asks = |number| FromServer::Request(id(number), number.to_string().as_bytes().into());
    relay.on_server(secs(3), asks(8));
    relay.on_gone(secs(3), "it was killed");
    relay.on_host(secs(4), &line("x"), call(4));
    relay.on_server(secs(4), answer(0, Some(known(0))));
    let todo = relay.on_server(secs(4), asks(8));
    let [Action::Reply(told)] = &todo[..] else {
        panic!("{todo:?}")
    };
    assert!(told.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"error\""));
    assert_eq!(relay.on_server(secs(4), asks(9)), [Action::Pass]);
    let late = relay.on_host(secs(5), &line("late"), FromHost::Response(id(8)));
    assert_eq!(late, [], "it is the dead one's");
    assert_eq!(relay.on_server(secs(5), asks(8)), [Action::Pass]);
}

#[test]
fn a_refused_handshake_is_forgotten_and_says_why() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    let refusal = FromServer::Response(Response {
        id: id(0),
        is_error: true,
        is_task: false,
        has_next: false,
        answer: Some(Answer {
            error: Some((-32000, "no token".to_owned())),
            ..known(9)
        }),
    });
    let todo = relay.on_server(secs(2), refusal);
    assert!(todo.contains(&Action::Forget([1; 32])), "{todo:?}");
    assert!(todo.contains(&Action::Forget([3; 32])), "{todo:?}");
    assert!(says(&todo)[0].contains("no token"), "{todo:?}");
}

#[test]
fn a_handshake_that_is_never_answered_has_an_end() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    assert_eq!(relay.deadline(), Some(secs(61)));
    let todo = relay.on_time(secs(61));
    assert!(says(&todo)[0].contains("handshake"), "{todo:?}");
    assert!(todo.contains(&Action::Close));
}

#[test]
fn a_closed_input_is_an_exit_or_the_end_of_a_useless_server() {
    let mut relay = running();
    relay.on_host(secs(3), &line("x"), call(3));
    relay.on(secs(3), Event::InputClosed);
    let due = secs(3) + Duration::from_millis(250);
    assert_eq!(relay.deadline(), Some(due));
    // It exits.
    let said = says(&relay.on_gone(secs(3), "it ended"));
    assert!(said[0].contains("it ended"), "{said:?}");
    assert_eq!(relay.deadline(), None);
    // It has exited, and something of it may live.
    let mut relay = running();
    relay.on_host(secs(3), &line("x"), call(3));
    relay.on(secs(3), Event::InputClosed);
    relay.on(secs(3), Event::Exited);
    assert_eq!((relay.deadline(), relay.on_time(due)), (None, vec![]));
    let said = says(&relay.on_lost("it was killed"));
    assert!(said[0].contains("may live"), "{said:?}");
    // It lives.
    let mut relay = running();
    relay.on_host(secs(3), &line("x"), call(3));
    relay.on(secs(3), Event::InputClosed);
    let todo = relay.on_time(due);
    assert!(says(&todo)[0].contains("closed its input"), "{todo:?}");
    assert_eq!(todo.last(), Some(&Action::Close));
}

/// A relay whose server was ended because it is idle, and lives.
fn ending() -> Relay {
    let mut relay = running();
    assert_eq!(relay.on_time(secs(2) + IDLE), [Action::Close]);
    relay
}

#[test]
fn the_end_of_an_idle_server_ends_a_relay_only_with_its_host() {
    let mut relay = ending();
    relay.policy.restart = false;
    assert_eq!(relay.on_gone(secs(700), "it ended"), []);
    let mut relay = ending();
    relay.on_host_closed(secs(700));
    let exit = [Action::Exit(Exit::Success)];
    assert_eq!(relay.on_gone(secs(700), "it ended"), exit);
    let mut relay = ending();
    assert_eq!(relay.on_leave(), []);
    assert_eq!(relay.on_gone(secs(700), "it ended"), exit);
    // There is more to do: the next server does it, and ends.
    let mut relay = ending();
    relay.on_host(secs(700), &line("x"), call(3));
    relay.on_host_closed(secs(700));
    let todo = relay.on_gone(secs(700), "it ended");
    assert_eq!(todo, [Action::Start, tell("init")]);
}

#[test]
fn a_server_is_kept_for_a_batch_that_it_was_given() {
    // Its successor was not.
    let mut relay = running();
    relay.on_host(secs(3), &line("batch"), FromHost::Batch);
    assert_eq!(relay.on_gone(secs(4), "it ended"), []);
    relay.on_host(secs(5), &line("x"), call(3));
    let answer_all = |relay: &mut Relay, now| {
        relay.on_server(now, answer(0, Some(known(0))));
        relay.on_server(now, answer(1, Some(known(7))));
        relay.on_server(now, answer(3, None));
    };
    answer_all(&mut relay, secs(5));
    assert_eq!(relay.deadline(), Some(secs(5) + IDLE));
    // It was queued for the successor.
    let mut relay = ending();
    relay.on_host(secs(700), &line("batch"), FromHost::Batch);
    relay.on_gone(secs(700), "it ended");
    answer_all(&mut relay, secs(700));
    assert_eq!(relay.deadline(), None);
}
