//! Whatever the order of events, no request is answered twice or lost, and no server is
//! ended while one is in flight.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Call,
    List,
    Discover,
    Ping,
    Initialize,
    Cancel(usize),
    Notify,
    /// The server answers the n-th request that it has.
    Reply(usize),
    Ask,
    Respond(usize),
    Log,
    Crash,
    Restart,
    Change,
    Wait(u64),
    /// A server whose input was closed ends.
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Call),
        3 => Just(Step::List),
        2 => Just(Step::Discover),
        1 => Just(Step::Ping),
        1 => Just(Step::Initialize),
        2 => (0_usize..4).prop_map(Step::Cancel),
        1 => Just(Step::Notify),
        12 => (0_usize..4).prop_map(Step::Reply),
        2 => Just(Step::Ask),
        3 => (0_usize..3).prop_map(Step::Respond),
        1 => Just(Step::Log),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
        1 => Just(Step::Change),
        4 => (1_u64..700).prop_map(Step::Wait),
        4 => Just(Step::Leave),
    ];
    prop::collection::vec(step, 1..80)
}

/// A host and the servers that it gets, one after the other.
pub(super) struct World {
    relay: Relay,
    now: u64,
    next: u64,
    /// Whether there is a server, and whether its input was closed.
    server: Option<bool>,
    /// The requests that this server has and did not answer.
    has: Vec<u64>,
    /// How often servers were given each.
    given: BTreeMap<u64, u32>,
    calls: BTreeSet<u64>,
    open: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
    answered: BTreeMap<u64, u32>,
    /// The questions of this server, and those that the host has yet to answer.
    asked: BTreeSet<u64>,
    to_answer: Vec<(u64, u32)>,
    generation: u32,
    /// A restart is carried out.
    restarts: bool,
    cache: Option<Answer>,
}

impl World {
    pub(super) fn new(is_cached: bool) -> Self {
        Self {
            relay: Relay::new(policy()),
            now: 0,
            next: 0,
            server: None,
            has: Vec::new(),
            given: BTreeMap::new(),
            calls: BTreeSet::new(),
            open: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            answered: BTreeMap::new(),
            asked: BTreeSet::new(),
            to_answer: Vec::new(),
            generation: 0,
            restarts: false,
            cache: is_cached.then(|| known(7)),
        }
    }

    fn answered(&mut self, number: u64) {
        *self.answered.entry(number).or_default() += 1;
        self.open.remove(&number);
    }

    fn receive(&mut self, text: &[u8]) {
        for line in std::str::from_utf8(text).unwrap().lines() {
            let Some(number) = line.strip_prefix('r') else {
                continue;
            };
            let number: u64 = number.parse().unwrap();
            *self.given.entry(number).or_default() += 1;
            self.has.push(number);
        }
    }

    /// Does what was ordered, on this line of this request.
    fn act(&mut self, todo: Vec<Action>, line: &[u8], reply: Option<u64>) {
        for action in todo {
            match action {
                Action::Pass => match reply {
                    Some(number) => self.answered(number),
                    None if !line.is_empty() => self.receive(line),
                    None => {}
                },
                Action::ToHost(said) => {
                    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
                    if said.get("method").is_none() {
                        self.answered(said["id"].as_u64().unwrap());
                    }
                }
                Action::Reply(_) => panic!("{action:?}"),
                Action::ToServer(lines) => {
                    assert_eq!(self.server, Some(false), "nothing is told to nobody");
                    self.receive(&lines);
                }
                Action::Store(..) => self.cache = Some(known(7)),
                Action::Forget(_) => self.cache = None,
                Action::Start => {
                    assert_eq!(self.server, None, "never two at a time");
                    self.server = Some(false);
                    self.generation += 1;
                }
                Action::Close => {
                    let working = self.has.iter().filter(|it| !self.cancelled.contains(it));
                    let working: Vec<_> = working.collect();
                    let is_unused = working.is_empty() && self.open.is_empty();
                    let is_unused = is_unused && self.asked.is_empty();
                    assert!(
                        is_unused || self.restarts,
                        "{working:?} {:?} {:?}",
                        self.open,
                        self.asked
                    );
                    self.server = Some(true);
                }
                Action::CloseNow => assert_eq!(self.server, Some(true)),
                Action::Look | Action::Exit(_) => panic!("{action:?}"),
            }
        }
    }

    fn ask(&mut self, method: Method) {
        let number = self.next;
        self.next += 1;
        self.open.insert(number);
        if method == Method::Other {
            self.calls.insert(number);
        }
        let cached = match method {
            Method::Initialize | Method::List(_) | Method::Discover => self.cache.clone(),
            _ => None,
        };
        let line = format!("r{number}\n");
        let todo = self.relay.on_host(
            secs(self.now),
            line.as_bytes(),
            request(number, method, cached),
        );
        self.act(todo, line.as_bytes(), None);
    }

    /// Ends also what is in use. The server answers as long as it lives, also what was refused.
    fn restart(&mut self) {
        self.restarts = true;
        let todo = self.relay.on(secs(self.now), Event::Restart);
        self.act(todo, b"", None);
        self.restarts = false;
    }

    fn gone(&mut self) {
        self.server = None;
        self.has.clear();
        self.asked.clear();
        let todo = self.relay.on_gone(secs(self.now), "it ended");
        self.act(todo, b"", None);
    }

    fn reply(&mut self, which: usize) {
        if self.has.is_empty() {
            return;
        }
        let number = self.has.remove(which % self.has.len());
        let todo = self
            .relay
            .on_server(secs(self.now), answer(number, Some(known(7))));
        self.act(todo, b"", Some(number));
    }

    /// Returns each step that may come next.
    pub(super) fn next_steps(&self) -> Vec<Step> {
        let mut all = vec![
            Step::Call,
            Step::List,
            Step::Ping,
            Step::Notify,
            Step::Wait(601),
        ];
        let open = self.open.iter().enumerate();
        let cancellable = open.filter(|(_, number)| **number != 0);
        all.extend(cancellable.map(|(nth, _)| Step::Cancel(nth)));
        all.extend((0..self.to_answer.len()).map(Step::Respond));
        if self.next == 0 {
            all.extend([Step::Initialize, Step::Discover]);
        }
        if let Some(is_closed) = self.server {
            all.extend((0..self.has.len()).map(Step::Reply));
            all.extend([Step::Log, Step::Crash, Step::Restart]);
            all.push(match is_closed {
                true => Step::Leave,
                false => Step::Ask,
            });
        }
        all
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Call => self.ask(Method::Other),
            Step::List => self.ask(Method::List("tools")),
            Step::Discover => self.ask(Method::Discover),
            Step::Ping => self.ask(Method::Ping),
            // Hosts say it once.
            Step::Initialize if self.next == 0 => self.ask(Method::Initialize),
            Step::Initialize => {}
            Step::Cancel(which) => {
                let Some(&number) = self.open.iter().nth(which) else {
                    return;
                };
                if number == 0 {
                    return;
                }
                self.open.remove(&number);
                self.cancelled.insert(number);
                let todo =
                    self.relay
                        .on_host(secs(self.now), b"n\n", FromHost::Cancelled(id(number)));
                self.act(todo, b"n\n", None);
            }
            Step::Notify => {
                let todo = self
                    .relay
                    .on_host(secs(self.now), b"n\n", FromHost::Notification);
                self.act(todo, b"n\n", None);
            }
            Step::Reply(which) if self.server.is_some() => self.reply(which),
            Step::Ask if self.server == Some(false) => {
                let number = self.next;
                self.next += 1;
                let text = number.to_string().as_bytes().into();
                self.asked.insert(number);
                self.to_answer.push((number, self.generation));
                let todo = self
                    .relay
                    .on_server(secs(self.now), FromServer::Request(id(number), text));
                assert_eq!(todo, [Action::Pass]);
            }
            Step::Respond(which) if !self.to_answer.is_empty() => {
                let which = which % self.to_answer.len();
                let (number, generation) = self.to_answer.remove(which);
                let todo =
                    self.relay
                        .on_host(secs(self.now), b"n\n", FromHost::Response(id(number)));
                let is_heard = generation == self.generation && self.server.is_some();
                assert_eq!(todo == [Action::Pass], is_heard, "{todo:?}");
                self.asked.remove(&number);
            }
            Step::Log if self.server.is_some() => {
                let todo = self.relay.on_server(secs(self.now), FromServer::Other);
                assert_eq!(todo, [Action::Pass]);
            }
            Step::Restart => self.restart(),
            Step::Change => {
                assert_eq!(self.relay.on(secs(self.now), Event::Changed), []);
            }
            Step::Crash if self.server.is_some() => self.gone(),
            Step::Leave if self.server == Some(true) => self.gone(),
            Step::Wait(seconds) => {
                // A handshake takes no minute.
                let handshake = self.has.iter().position(|&number| number == 0);
                if let Some(at) = handshake.filter(|_| self.server.is_some()) {
                    self.reply(at);
                }
                self.now += seconds;
                self.restarts = self.relay.changed.is_some();
                let todo = self.relay.on_time(secs(self.now));
                self.act(todo, b"", None);
                self.restarts = false;
            }
            _ => {}
        }
    }

    /// Checks how it ends with servers and hosts that answer everything.
    pub(super) fn settle(&mut self) {
        self.come_to_rest();
        assert!(self.open.is_empty(), "lost: {:?}", self.open);
        for (number, count) in &self.answered {
            assert_eq!(*count, 1, "request {number}");
        }
        for number in &self.calls {
            let given = self.given.get(number);
            assert!(given.is_none_or(|&count| count == 1), "call {number}");
        }
        let relay = &self.relay;
        assert!(relay.flight.is_empty() && relay.asked.is_empty() && relay.own.is_empty());
    }

    fn come_to_rest(&mut self) {
        for _ in 0..1000 {
            while !self.to_answer.is_empty() {
                self.step(&Step::Respond(0));
            }
            while self.server.is_some() && !self.has.is_empty() {
                self.reply(0);
            }
            self.step(&Step::Leave);
            self.step(&Step::Wait(61));
            if self.server.is_none() && self.relay.held() == 0 && self.relay.deadline().is_none() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.relay);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_request_is_lost_or_answered_twice_and_no_server_is_ended_in_use(steps in steps(), is_cached: bool) {
        let mut world = World::new(is_cached);
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }
}
