//! The client's session, against a peer that says anything at any time.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::json;

use super::choices::Choices;
use crate::ExecutorError;
use crate::client::fuzzing::{Effect, ProcessEvent, Purpose, Session, Timing};
use crate::protocol::Chunk;
use crate::protocol::extension::{Lifecycle, VERSION};
use crate::protocol::process::{StartParams, WriteParams};

/// Everything that can happen to a session, in any order.
///
/// Every caller gets one answer; the output of a process comes in order, once; the
/// end is the end; and the work is in proportion to what happened.
pub fn client_session(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut world = World::new(choices.byte());
    while choices.more() {
        world.step(&mut choices);
        world.carry_out();
    }
    world.end();
}

struct World {
    session: Session,
    now: Instant,
    /// Requests that the peer has, by id.
    asked: Vec<(i64, String)>,
    waiting: HashSet<u64>,
    next_token: u64,
    /// The last chunk of each process.
    seen: HashMap<String, u64>,
    dead: bool,
    /// The driver's present work.
    connecting: bool,
    linked: bool,
    /// It has received bytes of the input as they are.
    raw: bool,
}

impl World {
    fn new(kind: u8) -> Self {
        let timing = Timing {
            call: Duration::from_secs(10),
            hello: Duration::from_secs(10),
            resume: Duration::from_secs(u64::from(kind % 4) * 10),
            retry: Duration::from_millis(100),
            keep_alive: Duration::from_secs(10),
            dead_after: Duration::from_secs(25),
            hole: Duration::from_millis(200),
        };
        let wish = Lifecycle {
            version: VERSION,
            raw_output: kind.is_multiple_of(2),
            ..Lifecycle::default()
        };
        let now = Instant::now();
        Self {
            session: Session::new(timing, "fuzz".to_owned(), wish, now),
            now,
            asked: Vec::new(),
            waiting: HashSet::new(),
            next_token: 0,
            seen: HashMap::new(),
            dead: false,
            connecting: false,
            linked: false,
            raw: false,
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.waiting.insert(self.next_token);
        self.next_token
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let process = format!("p{}", choices.byte() % 3);
        match choices.byte() % 18 {
            0 if self.connecting => {
                (self.connecting, self.linked) = (false, true);
                self.session.link_up(self.now);
            }
            1 if self.connecting || self.linked => self.cut(),
            2 => {
                self.now += Duration::from_millis(choices.number().min(100_000));
                self.session.tick(self.now);
            }
            3 if self.linked => {
                self.raw = true;
                self.receive(choices.bytes().to_vec());
            }
            4 => {
                let purpose = Purpose::Answer(self.token());
                self.session
                    .call(self.now, "session/ping", &json!({}), purpose);
            }
            // Names are not used again: a process of each.
            5 if !self.seen.contains_key(&process) => {
                self.seen.insert(process.clone(), 0);
                let params = json!({"processId": process, "argv": ["x"], "cwd": "/"});
                let params: StartParams = serde_json::from_value(params).expect("it is one");
                let token = self.token();
                self.session.start(self.now, &params, token);
            }
            6 => {
                let params = WriteParams {
                    process_id: process,
                    chunk: Chunk(choices.bytes().to_vec().into()),
                    write_id: Some("w".to_owned()),
                };
                self.session.write(self.now, &params);
            }
            7 => self.session.abandon(self.now, &process),
            8 => self
                .session
                .consumed(&process, choices.number(), choices.number()),
            9 => self.session.lag(self.now, &process, choices.one_in(2)),
            10 => self.session.forget(&process),
            11 if self.linked => {
                self.session.frame_refused(self.now);
                self.cut();
            }
            12 if self.linked => self.session.alive(self.now),
            13 if self.linked => self.session.no_ping(self.now),
            14 | 15 if self.linked => self.answer(choices),
            16 if self.linked => {
                // A chunk that says which one it is.
                let seq = choices.number();
                let output = json!({"processId": process, "seq": seq, "stream": "stdout",
                    "chunk": Chunk(seq.to_be_bytes().to_vec().into())});
                self.say(&json!({"method": "process/output", "params": output}));
            }
            17 if self.linked => {
                let kind = ["exited", "closed", "gone"][usize::from(choices.byte() % 3)];
                let params = json!({"processId": process, "seq": choices.number(), "exitCode": 0});
                self.say(&json!({"method": format!("process/{kind}"), "params": params}));
            }
            _ => {}
        }
    }

    fn cut(&mut self) {
        (self.connecting, self.linked) = (false, false);
        let reason = "cut".to_owned();
        self.session
            .link_down(self.now, ExecutorError::Lost { reason });
    }

    fn say(&mut self, message: &serde_json::Value) {
        self.receive(message.to_string().into_bytes());
    }

    fn receive(&mut self, frame: Vec<u8>) {
        self.session.frame(self.now, &frame.into());
    }

    /// The peer answers a request that it has, or one that it answered already.
    fn answer(&mut self, choices: &mut Choices<'_>) {
        let Some((id, method)) = self.asked.get(usize::from(choices.byte())).cloned() else {
            return;
        };
        let result = match (method.as_str(), choices.byte() % 4) {
            (_, 3) => {
                let error = json!({"code": -32600 - i64::from(choices.byte() % 32), "message": "no",
                    "data": {"kind": "unknownSession", "machine": "m"}});
                return self.say(&json!({"id": id, "error": error}));
            }
            ("initialize", kind) => json!({
                "sessionId": "s",
                "extensions": (kind > 0).then(|| json!({"mcpLifecycle": {
                    "version": 1, "leaseMs": choices.number(), "maxFrame": choices.number(),
                    "machine": "m", "rawOutput": kind == 2}})),
            }),
            ("process/read", _) => {
                let seq = choices.number();
                let chunk = json!({"seq": seq, "stream": "stdout",
                    "chunk": Chunk(seq.to_be_bytes().to_vec().into())});
                json!({"chunks": [chunk], "nextSeq": choices.number(),
                    "exited": choices.one_in(2), "exitCode": 0, "closed": choices.one_in(2)})
            }
            ("process/write", kind) => {
                let status = ["accepted", "starting", "stdinClosed"][usize::from(kind)];
                json!({"status": status})
            }
            (_, _) => json!({}),
        };
        self.say(&json!({"id": id, "result": result}));
    }

    fn carry_out(&mut self) {
        // However a frame is made, it has no more than a few effects per process
        // and call that there are.
        let most = 1000 + 20 * self.next_token;
        let mut count = 0;
        while let Some(effect) = self.session.next_effect() {
            count += 1;
            assert!(count < most, "no end of effects");
            match effect {
                Effect::Send(frame) => {
                    let frame: serde_json::Value = serde_json::from_str(&frame).expect("JSON");
                    if let (Some(id), Some(method)) =
                        (frame["id"].as_i64(), frame["method"].as_str())
                    {
                        self.asked.push((id, method.to_owned()));
                    }
                }
                Effect::Answered(token, _) => {
                    assert!(self.waiting.remove(&token), "answered twice");
                }
                Effect::Event(process, ProcessEvent::Output(_, bytes)) => {
                    // Raw bytes of the input may say anything; these do not.
                    if let Ok(seq) = <[u8; 8]>::try_from(&bytes[..]).map(u64::from_be_bytes) {
                        let seen = self.seen.entry(process).or_default();
                        assert!(seq > *seen || self.raw, "{seq} after {seen}");
                        *seen = seq;
                    }
                }
                Effect::Connect => {
                    assert!(
                        !self.dead && !self.linked,
                        "no second link, none after the end"
                    );
                    self.connecting = true;
                }
                Effect::Disconnect => self.linked = false,
                Effect::Ready(_) => assert!(!self.dead, "after the end"),
                Effect::Dead(_) => {
                    assert!(!self.dead, "it ends once");
                    self.dead = true;
                }
                _ => {}
            }
        }
        let deadline = self.session.next_deadline();
        assert!(deadline.checked_add(Duration::from_secs(1)).is_some());
    }

    /// Nobody waits for ever: the link is lost, and not had again.
    fn end(&mut self) {
        for _ in 0..10 {
            if self.connecting || self.linked {
                self.cut();
            }
            self.now += Duration::from_secs(60);
            self.session.tick(self.now);
            self.carry_out();
        }
        assert!(self.waiting.is_empty(), "callers without an answer");
    }
}
