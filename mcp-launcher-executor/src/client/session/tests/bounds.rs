//! The bounds that end a session, a process or a request.

use super::*;

#[test]
fn a_link_that_is_lost_again_before_anything_came_over_it_is_not_back() {
    let mut world = World::plain();
    let begun = world.now;
    for round in 0.. {
        world.pass(Duration::from_secs(1));
        let reason = "test".to_owned();
        world
            .session
            .link_down(world.now, ExecutorError::Lost { reason });
        world.pass(Duration::from_millis(100));
        let effects = world.effects();
        if effects
            .iter()
            .any(|effect| matches!(effect, Effect::Dead(_)))
        {
            break;
        }
        assert!(round < 100, "it resumes for ever");
        world.come_up(&json!({"sessionId": "s"}));
    }
    let took = world.now - begun;
    assert!(
        took >= Duration::from_secs(24) && took < Duration::from_secs(28),
        "{took:?}"
    );
}

#[test]
fn a_link_that_carries_something_each_time_goes_on() {
    let mut world = World::plain();
    for _ in 0..100 {
        world.pass(Duration::from_secs(1));
        world.lose_link();
        world.come_up(&json!({"sessionId": "s"}));
        world.session.alive(world.now);
    }
    assert!(world.session.dead.is_none());
}

#[test]
fn what_is_too_large_for_the_peer_is_refused_here() {
    let ours = json!({"version": 1, "maxFrame": 300});
    let mut world = World::with(json!({"sessionId": "s", "extensions": {"mcpLifecycle": ours}}));
    let params = json!({"processId": "p", "argv": ["x".repeat(400)], "cwd": "/"});
    let params: StartParams = serde_json::from_value(params).unwrap();
    world.session.start(world.now, &params, 7);
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [Effect::Answered(7, Err(ExecutorError::Refused { kind: Some(kind), .. }))] if kind == "limit"),
        "{effects:?}"
    );
}

#[test]
fn a_peer_that_closes_over_a_large_frame_costs_that_request_and_no_other() {
    let mut world = World::plain();
    world.start();
    let small = world.write();
    let large = json!({"blob": "x".repeat(5000)});
    world
        .session
        .call(world.now, "process/read", &large, Purpose::Answer(9));
    world.effects();
    world.session.frame_refused(world.now);
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [Effect::Answered(9, Err(_))]),
        "{effects:?}"
    );
    world.lose_link();
    let again = world.come_up(&json!({"sessionId": "s"}));
    assert!(again.iter().any(|frame| frame["id"] == small["id"]));
    assert!(
        !again
            .iter()
            .any(|frame| frame["params"]["blob"].is_string())
    );
}

#[test]
fn events_that_a_daemon_never_sends_end_the_process_and_not_in_silence() {
    let ours = json!({"version": 1, "leaseMs": 600_000});
    let mut world = World::with(json!({"sessionId": "s", "extensions": {"mcpLifecycle": ours}}));
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    world.effects();
    let late = json!({"processId": "p", "seq": 2, "exitCode": 0});
    world.receive(&json!({"method": "process/exited", "params": late}));
    world.pass(Duration::from_secs(5));
    let failed = |effects: Vec<Effect>| {
        effects
            .iter()
            .any(|e| matches!(e, Effect::Failed(id, _) if id == "p"))
    };
    assert!(!failed(world.effects()));
    world.pass(Duration::from_secs(6));
    assert!(failed(world.effects()));
}

#[test]
fn a_lease_of_nothing_is_no_flood_of_pings() {
    let ours = json!({"version": 1, "leaseMs": 0});
    let mut world = World::with(json!({"sessionId": "s", "extensions": {"mcpLifecycle": ours}}));
    for _ in 0..100 {
        world.pass(Duration::from_millis(1));
    }
    let pings = world
        .effects()
        .into_iter()
        .filter(|e| matches!(e, Effect::Ping));
    assert!(pings.count() < 10);
}

#[test]
fn an_order_to_end_a_start_that_was_given_up_is_repeated_until_it_is_carried_out() {
    let mut world = World::with(extended());
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    world.session.abandon(world.now, "p");
    let order = world.sent().remove(0);
    assert_eq!(order["method"], "process/terminate");
    world.pass(Duration::from_secs(10));
    let again = world.sent().remove(0);
    assert_eq!(again, order, "nobody answered");
    let full =
        json!({"code": crate::protocol::code::LIMIT, "message": "as many requests wait as may"});
    world.receive(&json!({"id": again["id"], "error": full}));
    world.pass(Duration::from_secs(10));
    let again = world.sent().remove(0);
    assert_eq!(again, order, "there was no room");
    world.answer(&again, json!({"running": true}));
    world.pass(Duration::from_secs(10));
    assert!(
        world
            .sent()
            .iter()
            .all(|m| m["method"] != "process/terminate")
    );
}

#[test]
fn a_repeated_start_that_is_refused_is_undone_as_the_first_one_may_have_been_carried_out() {
    for hello in [json!({"sessionId": "s"}), extended()] {
        let mut world = World::with(hello.clone());
        let start = world.start();
        world.lose_link();
        world.come_up(&hello);
        let error = json!({"code": crate::protocol::code::LIMIT, "message": "no place is left"});
        world.receive(&json!({"id": start["id"], "error": error}));
        let effects = world.effects();
        assert!(
            matches!(
                &effects[..],
                [Effect::Answered(7, Err(ExecutorError::Refused { .. })), Effect::Send(frame)]
                    if frame.contains("process/terminate")
            ),
            "{effects:?}"
        );
        assert!(
            world.session.has_calls(),
            "it is asked for until it is done"
        );
    }
}

#[test]
fn a_start_that_is_refused_at_once_asks_for_no_end() {
    let mut world = World::with(extended());
    let start = world.start();
    let error = json!({"code": crate::protocol::code::LIMIT, "message": "no place is left"});
    world.receive(&json!({"id": start["id"], "error": error}));
    assert!(matches!(world.effects()[..], [Effect::Answered(7, Err(_))]));
}

#[test]
fn a_start_for_which_the_link_was_closed_is_undone() {
    let mut world = World::with(extended());
    world.start();
    // The largest of those without an answer, though another one may have been it.
    world.session.frame_refused(world.now);
    world.effects();
    world.lose_link();
    let resumed = world.come_up(&extended());
    let methods: Vec<_> = resumed.iter().map(|m| m["method"].clone()).collect();
    assert_eq!(methods, ["initialized", "process/terminate"]);
}

#[test]
fn input_that_a_daemon_has_no_room_for_is_sent_again_until_it_has() {
    let mut world = World::with(extended());
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    let write = world.write();
    let named = json!({"processId": "p"});
    let close = Purpose::Close("p".to_owned());
    let method = crate::protocol::method::CLOSE_STDIN;
    world.session.call(world.now, method, &named, close);
    let close = world.sent().remove(0);
    let full = json!({"code": crate::protocol::code::LIMIT, "message": "too much waits"});
    for _ in 0..3 {
        for request in [&write, &close] {
            world.receive(&json!({"id": request["id"], "error": full}));
        }
        assert!(world.effects().is_empty(), "nobody is told");
        world.pass(Duration::from_millis(100));
        assert_eq!(world.sent(), [write.clone(), close.clone()]);
    }
    world.pass(Duration::from_secs(9));
    assert!(world.sent().iter().all(|m| m["method"] != write["method"]));
    world.answer(&write, json!({"status": "accepted"}));
    world.answer(&close, json!({"status": "accepted"}));
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [Effect::Written(id, Ok(_))] if id == "p"),
        "{effects:?}"
    );
}

#[test]
fn a_plain_peer_that_refuses_input_has_refused_it() {
    let mut world = World::plain();
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    let write = world.write();
    let full = json!({"code": crate::protocol::code::LIMIT, "message": "too much waits"});
    world.receive(&json!({"id": write["id"], "error": full}));
    assert!(matches!(
        world.effects()[..],
        [Effect::Written(_, Err(ExecutorError::Refused { .. }))]
    ));
}

#[test]
fn a_daemon_does_not_keep_for_ever_what_was_received() {
    let mut world = World::with(extended());
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    world.effects();
    world.receive(&output(1));
    assert!(world.sent().is_empty());
    world.pass(Duration::from_secs(10));
    let told = world.sent();
    assert!(
        matches!(&told[..], [ack] if ack["method"] == "process/ack" && ack["params"]["seq"] == 1),
        "{told:?}"
    );
    world.session.alive(world.now);
    world.pass(Duration::from_secs(10));
    assert!(world.sent().is_empty(), "once");
}
