//! A host that does what comes to its mind, with a real server: every request has one answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::session::{Place, Session};

/// Takes the lines until this request is answered.
fn until(session: &Session, id: u64, answers: &mut BTreeMap<u64, Vec<Value>>) {
    while !answers.contains_key(&id) {
        let line: Value = serde_json::from_str(&session.line()).unwrap();
        if let Some(of) = line["id"].as_u64().filter(|_| line.get("method").is_none()) {
            answers.entry(of).or_default().push(line);
        }
    }
}

#[test]
fn every_request_of_a_restless_host_has_one_answer() {
    let mut chance = Chance::new();
    let mut below = |limit| chance.below(limit);
    let mut place = Place::new();
    let mut session = place.session(&["--lazy", "--idle", "30ms", "--restart", "--grace", "500ms"]);
    session.open();
    // The handshake, 0, has its answer.
    let (mut answers, mut crashes, mut last) = (BTreeMap::from([(0, Vec::new())]), 0, 0);
    for _ in 0..150 {
        last = match below(12) {
            0 if crashes < 2 => {
                crashes += 1;
                session.ask("tools/call", json!({"name": "crash"}))
            }
            1..4 => session.ask("tools/list", json!({})),
            4 => session.ask("ping", json!({})),
            5 => {
                let id = session.ask("tools/call", json!({"name": "silent"}));
                session.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
                // Nobody waits for this one.
                answers.insert(id, Vec::new());
                continue;
            }
            6..9 => {
                until(&session, last, &mut answers);
                // About as long as the idle time, so that the end and the next request meet.
                std::thread::sleep(Duration::from_millis(20 + below(20)));
                continue;
            }
            _ => session.ask("tools/call", json!({"name": "one"})),
        };
    }
    let asked = last;
    for id in 1..=asked {
        until(&session, id, &mut answers);
    }
    assert!(session.end().success());
    place.alive.ready(1);
    place.alive.nobody_is_left();
    let twice: Vec<_> = answers.values().filter(|of| of.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
