//! The session against a scripted peer, in virtual time.

mod bounds;

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::protocol::extension::VERSION;
use crate::protocol::process::{StartParams, Stream, WriteParams};
use crate::protocol::{Chunk, encode_raw_output};

struct World {
    session: Session,
    now: Instant,
}

impl World {
    /// Connected to a plain peer.
    fn plain() -> Self {
        Self::with(json!({"sessionId": "s"}))
    }

    fn with(hello: Value) -> Self {
        let secs = Duration::from_secs;
        let timing = Timing {
            call: secs(10),
            hello: secs(10),
            resume: secs(25),
            retry: Duration::from_millis(100),
            keep_alive: secs(10),
            dead_after: secs(25),
            hole: Duration::from_millis(200),
        };
        let wish = Lifecycle {
            version: VERSION,
            raw_output: true,
            ..Lifecycle::default()
        };
        let now = Instant::now();
        let session = Session::new(timing, "test".to_owned(), wish, now);
        let mut world = Self { session, now };
        assert!(matches!(world.effects()[..], [Effect::Connect]));
        world.come_up(&hello);
        world
    }

    fn come_up(&mut self, hello: &Value) -> Vec<Value> {
        self.session.link_up(self.now);
        let sent = self.sent();
        assert_eq!(sent[0]["method"], "initialize");
        self.answer(&sent[0], hello.clone());
        self.sent()
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.session.next_effect()).collect()
    }

    /// The frames among the effects.
    fn sent(&mut self) -> Vec<Value> {
        let frames = self
            .effects()
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Send(frame) => Some(serde_json::from_str(&frame).unwrap()),
                _ => None,
            });
        frames.collect()
    }

    fn receive(&mut self, message: &Value) {
        self.session.frame(self.now, &message.to_string().into());
    }

    fn answer(&mut self, request: &Value, result: Value) {
        self.receive(&json!({"id": request["id"], "result": result}));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.session.tick(self.now);
    }

    fn lose_link(&mut self) {
        let reason = ExecutorError::Lost {
            reason: "test".to_owned(),
        };
        self.session.link_down(self.now, reason);
        self.pass(Duration::from_millis(100));
        assert!(matches!(self.effects()[..], [Effect::Connect]));
    }

    fn start(&mut self) -> Value {
        let params: StartParams =
            serde_json::from_value(json!({"processId": "p", "argv": ["x"], "cwd": "/"})).unwrap();
        self.session.start(self.now, &params, 7);
        self.sent().remove(0)
    }

    fn write(&mut self) -> Value {
        let params = WriteParams {
            process_id: "p".to_owned(),
            chunk: Chunk(Bytes::from_static(b"hello")),
            write_id: Some("w1".to_owned()),
        };
        self.session.write(self.now, &params);
        self.sent().remove(0)
    }
}

#[test]
fn a_write_in_flight_is_repeated_as_it_was() {
    let mut world = World::plain();
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    let first = world.write();
    world.lose_link();
    let resumed = world.come_up(&json!({"sessionId": "s"}));
    let again = resumed
        .iter()
        .find(|m| m["method"] == "process/write")
        .unwrap();
    assert_eq!(again, &first);
    let read = resumed
        .iter()
        .find(|m| m["method"] == "process/read")
        .unwrap();
    assert_eq!(read["params"]["afterSeq"], 0);
}

#[test]
fn a_repeated_start_that_already_exists_has_succeeded() {
    let mut world = World::plain();
    let start = world.start();
    world.lose_link();
    world.come_up(&json!({"sessionId": "s"}));
    let error = json!({"code": -32600, "message": "process p already exists"});
    world.receive(&json!({"id": start["id"], "error": error}));
    assert!(matches!(world.effects()[..], [Effect::Answered(7, Ok(_))]));
}

#[test]
fn a_repeated_start_that_goes_on_starting_is_given_up() {
    let mut world = World::plain();
    let start = world.start();
    world.lose_link();
    world.come_up(&json!({"sessionId": "s"}));
    let error = json!({"code": -32600, "message": "process p already exists"});
    world.receive(&json!({"id": start["id"], "error": error}));
    world.effects();
    world.pass(Duration::from_secs(2));
    let sent = world.sent();
    let read = sent
        .iter()
        .find(|it| it["method"] == "process/read")
        .unwrap();
    let error = json!({"code": -32600, "message": "process id p is starting"});
    world.receive(&json!({"id": read["id"], "error": error}));
    let effects = world.effects();
    let failed = |it: &Effect| matches!(it, Effect::Failed(id, _) if id == "p");
    assert!(effects.iter().any(failed), "{effects:?}");
}

#[test]
fn the_first_start_that_already_exists_has_failed() {
    let mut world = World::plain();
    let start = world.start();
    let error = json!({"code": -32600, "message": "process p already exists"});
    world.receive(&json!({"id": start["id"], "error": error}));
    assert!(matches!(world.effects()[..], [Effect::Answered(7, Err(_))]));
}

#[test]
fn a_start_without_an_answer_is_undone_on_the_next_link_first_of_all() {
    let mut world = World::plain();
    world.start();
    world.pass(Duration::from_secs(10));
    let effects = world.effects();
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::Answered(7, Err(_)))),
        "{effects:?}"
    );
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Disconnect)),
        "{effects:?}"
    );
    world.pass(Duration::from_millis(100));
    let resumed = {
        world.effects();
        world.come_up(&json!({"sessionId": "s"}))
    };
    let methods: Vec<_> = resumed
        .iter()
        .map(|m| m["method"].as_str().unwrap())
        .collect();
    assert_eq!(methods, ["initialized", "process/terminate"]);
    // Until it is answered, it is asked again.
    world.pass(Duration::from_secs(10));
    assert!(world.session.has_calls());
}

#[test]
fn a_link_that_does_not_come_back_in_time_ends_everything() {
    let mut world = World::plain();
    world.start();
    let lost = || ExecutorError::Lost {
        reason: "test".to_owned(),
    };
    world.session.link_down(world.now, lost());
    let mut dead = false;
    for _ in 0..400 {
        world.pass(Duration::from_millis(100));
        for effect in world.effects() {
            match effect {
                Effect::Connect => world.session.link_down(world.now, lost()),
                Effect::Dead(_) => dead = true,
                _ => {}
            }
        }
    }
    assert!(dead);
    world
        .session
        .call(world.now, "x", &json!({}), Purpose::Answer(9));
    assert!(matches!(world.effects()[..], [Effect::Answered(9, Err(_))]));
}

#[test]
fn silence_is_asked_about_and_then_acted_on() {
    let mut world = World::plain();
    world.pass(Duration::from_secs(10));
    assert!(matches!(world.effects()[..], [Effect::Ping]));
    world.session.alive(world.now);
    world.pass(Duration::from_secs(10));
    assert!(matches!(world.effects()[..], [Effect::Ping]));
    world.pass(Duration::from_secs(15));
    let effects = world.effects();
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Disconnect)),
        "{effects:?}"
    );
}

#[test]
fn a_session_that_the_peer_has_forgotten_is_over() {
    let mut world = World::plain();
    world.start();
    world.lose_link();
    world.session.link_up(world.now);
    let hello = world.sent().remove(0);
    assert_eq!(hello["params"]["resumeSessionId"], "s");
    let error = json!({"code": -32600, "message": "unknown session id s"});
    world.receive(&json!({"id": hello["id"], "error": error}));
    let effects = world.effects();
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Dead(_))),
        "{effects:?}"
    );
}

#[test]
fn an_event_that_stays_away_is_asked_for() {
    let mut world = World::plain();
    let start = world.start();
    world.answer(&start, json!({"processId": "p"}));
    world.effects();
    let output = |seq| {
        let params = json!({"processId": "p", "seq": seq, "stream": "stdout", "chunk": "YQ=="});
        json!({"method": "process/output", "params": params})
    };
    world.receive(&output(2));
    assert!(world.effects().is_empty());
    world.pass(Duration::from_millis(200));
    let read = world.sent().remove(0);
    assert_eq!(read["method"], "process/read");
    let chunk = json!({"seq": 1, "stream": "stdout", "chunk": "YQ=="});
    world.answer(&read, json!({"chunks": [chunk], "nextSeq": 2}));
    let events = world.effects();
    let delivered = events.iter().filter(|e| matches!(e, Effect::Event(..)));
    assert_eq!(delivered.count(), 2);
}

fn output(seq: u64) -> Value {
    let params = json!({"processId": "p", "seq": seq, "stream": "stdout", "chunk": "YQ=="});
    json!({"method": "process/output", "params": params})
}

fn extended() -> Value {
    let agreed = json!({"mcpLifecycle": {"version": VERSION, "rawOutput": true}});
    json!({"sessionId": "s", "extensions": agreed})
}

#[test]
fn a_daemon_that_talks_hears_of_us_all_the_same() {
    let mut world = World::with(extended());
    world.start();
    let mut pings = 0;
    for seq in 1..=6 {
        world.pass(Duration::from_secs(5));
        world.receive(&output(seq));
        let effects = world.effects();
        pings += effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Ping))
            .count();
    }
    assert_eq!(pings, 3, "in 30 s, of which it was never silent");
}

#[test]
fn a_start_that_was_given_up_is_not_repeated_behind_its_end() {
    for hello in [json!({"sessionId": "s"}), extended()] {
        let mut world = World::with(hello.clone());
        world.start();
        world.lose_link();
        world.session.abandon(world.now, "p");
        assert!(matches!(world.effects()[..], [Effect::Answered(7, Err(_))]));
        let resumed = world.come_up(&hello);
        let methods: Vec<_> = resumed.iter().map(|m| m["method"].clone()).collect();
        assert!(methods.contains(&json!("process/terminate")), "{methods:?}");
        assert!(!methods.contains(&json!("process/start")), "{methods:?}");
    }
}

#[test]
fn a_daemon_is_told_that_we_have_everything_or_want_nothing() {
    let mut world = World::with(extended());
    world.start();
    world.receive(&output(1));
    assert!(world.sent().is_empty(), "output is told of when it is read");
    world.receive(&json!({"method": "process/closed", "params": {"processId": "p", "seq": 2}}));
    let ack = world.sent().remove(0);
    assert_eq!(
        (&ack["method"], &ack["params"]["seq"]),
        (&json!("process/ack"), &json!(2))
    );
    world.session.forget("p");
    world.receive(&json!({"method": "process/gone", "params": {"processId": "p", "seq": 3}}));
    let ack = world.sent().remove(0);
    assert_eq!(
        (&ack["params"]["seq"], &ack["params"]["stdout"]),
        (&json!(3), &json!(u64::MAX))
    );
}

#[test]
fn a_call_that_is_overdue_costs_a_link_only_where_another_one_helps() {
    for (hello, helps) in [(json!({"sessionId": "s"}), true), (extended(), false)] {
        let mut world = World::with(hello);
        let params = serde_json::Map::new();
        let call = Purpose::Answer(9);
        world.session.call(world.now, "process/list", &params, call);
        world.effects();
        world.pass(Duration::from_secs(10));
        let effects = world.effects();
        let dropped = effects.iter().any(|e| matches!(e, Effect::Disconnect));
        assert_eq!(dropped, helps, "{effects:?}");
    }
}

#[test]
fn raw_output_is_taken_in_order_from_a_peer_that_agreed_to_it() {
    let raw = |seq| {
        let frame = encode_raw_output("p", seq, Stream::Stdout, b"out").unwrap();
        Bytes::from(frame)
    };
    for (mut world, expected) in [(World::with(extended()), 3), (World::plain(), 0)] {
        world.start();
        for seq in [2, 1, 3, 3] {
            world.session.frame(world.now, &raw(seq));
        }
        let outputs = world.effects().into_iter().filter(|effect| {
            matches!(effect, Effect::Event(_, ProcessEvent::Output(Stream::Stdout, b)) if **b == *b"out")
        });
        assert_eq!(outputs.count(), expected);
    }
}

#[test]
fn nonsense_of_the_peer_is_passed_over() {
    let mut world = World::plain();
    for frame in [
        &b"{"[..],
        b"[]",
        b"null",
        br#"{"id":99,"result":1}"#,
        br#"{"method":"new/thing"}"#,
    ] {
        world
            .session
            .frame(world.now, &Bytes::copy_from_slice(frame));
    }
    assert!(world.effects().is_empty());
    world.receive(&json!({"id": 5, "method": "network/policyRequest", "params": {}}));
    assert_eq!(world.sent()[0]["error"]["code"], -32601);
}
