//! Decides what a relay does: takes events, returns actions. No clock and no I/O.

pub(super) mod events;
mod flight;
mod host;
mod life;
mod restart;
mod server;
mod suspend;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use events::{Action, Answer, Event, Key, Method, Policy};
use flight::{Flight, KEPT};
use suspend::Doubt;

use super::line::Id;

#[derive(Debug, Default)]
pub(super) struct Relay {
    policy: Policy,
    phase: Phase,
    now: Duration,
    todo: Vec<Action>,
    used: Duration,
    started: Duration,
    failures: u32,

    flight: Flight,
    /// Requests of servers in flight.
    asked: HashMap<Id, Asked>,
    /// The host's last request was refused, since too many are in flight.
    has_refused: bool,
    /// The relay's own requests in flight.
    own: HashMap<Id, Own>,
    /// The host's lines that wait for a server.
    held: Vec<u8>,
    /// They contain an `initialize`.
    holds_handshake: bool,

    handshake: Option<Handshake>,
    initialized: Option<Rc<[u8]>>,
    level: Option<(Id, Rc<[u8]>)>,
    /// The lists that the host has received, and the answer to `server/discover`.
    seen: BTreeMap<Key, Seen>,

    /// The host uses a protocol before 2026-07-28.
    is_legacy: bool,
    /// The server may be working without a request in flight.
    is_kept: bool,
    has_host_closed: bool,
    is_closed: bool,
    /// The time at which its input is closed, even with unwritten lines.
    cut: Option<Duration>,
    /// It has closed its input: the time by which it should have exited.
    deaf: Option<Duration>,
    doubt: Option<Doubt>,
    is_leaving: bool,
    /// The successor of the ending server is started without a request.
    starts_again: bool,
    /// The first and the last change of files since the start of the server.
    changed: Option<(Duration, Duration)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Asleep,
    /// It failed too often: restarted at this time.
    Waiting(Duration),
    /// It was sent a handshake without an answer yet.
    Starting,
    Running,
    /// Its input was closed because it is idle, or to be restarted. No request that it was sent is
    /// in flight.
    Ending,
    /// Its input was closed because it is unusable.
    Failing,
}

#[derive(Debug)]
struct Asked {
    text: Box<[u8]>,
    /// The server has ended. The host may still answer, but not to a successor that uses this ID.
    is_over: bool,
}

#[derive(Debug)]
enum Own {
    Handshake,
    Renewal(Key),
    Level,
}

#[derive(Debug)]
struct Handshake {
    id: Id,
    line: Rc<[u8]>,
    key: Option<Key>,
    version: Option<Box<str>>,
    has_logging: bool,
}

#[derive(Debug)]
struct Seen {
    method: Method,
    id: Id,
    line: Rc<[u8]>,
    digest: Key,
}

impl Relay {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    pub(super) fn on(&mut self, now: Duration, event: Event<'_>) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Begin if self.policy.lazy => {}
            Event::Begin => self.start(),
            Event::Host(line, what) => self.host(line, what),
            Event::Server(_, what) => {
                self.doubt = None;
                self.server(what);
            }
            Event::Progress => self.cut = self.cut.map(|_| self.grace_end()),
            Event::InputClosed => self.input_closed(),
            Event::Exited => self.deaf = None,
            Event::Time => self.time(),
            Event::Restart => self.restart(true),
            Event::Changed => self.changed.get_or_insert((now, now)).1 = now,
            Event::Resumed => self.resumed(),
            Event::Looked(work) => self.looked(work),
            Event::HostClosed => self.host_closed(),
            Event::Leave => self.leave(),
            Event::Gone(how) => self.gone(how),
            Event::Lost(how) => self.lost(how),
        }
        std::mem::take(&mut self.todo)
    }

    pub(super) fn passes(&self) -> bool {
        self.phase == Phase::Running
    }

    pub(super) fn is_last(&self) -> bool {
        self.is_leaving
            || self.has_host_closed
            || !(self.policy.restart || self.phase == Phase::Ending)
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns whether the relay itself answers the host, which must then read before more is read
    /// from it.
    pub(super) fn answers(&self) -> bool {
        !self.passes() || self.has_refused
    }

    pub(super) fn handshake_key(&self) -> Option<&Key> {
        self.handshake.as_ref()?.key.as_ref()
    }

    pub(super) fn is_of_interest(&self, id: &Id) -> bool {
        self.own.contains_key(id) || self.flight.is_cacheable(id)
    }

    fn remember(&mut self, key: Key, (method, id, line, digest): (Method, Id, Rc<[u8]>, Key)) {
        let seen = Seen {
            method,
            id,
            line,
            digest,
        };
        self.seen.remove(&key);
        let sizes = self.seen.values().map(|seen| seen.line.len());
        if KEPT.allows(sizes, seen.line.len()) {
            self.seen.insert(key, seen);
        }
    }

    fn answer(&mut self, id: &[u8], object: &[u8]) {
        self.todo.push(Action::ToHost(answer(id, object)));
    }
}

impl Handshake {
    fn learn(&mut self, answer: &Answer) {
        self.version.clone_from(&answer.version);
        self.has_logging = answer.has_logging;
    }
}

fn answer(id: &[u8], object: &[u8]) -> Vec<u8> {
    let rest = object.strip_prefix(b"{").unwrap_or(object);
    [b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",", rest, b"\n"].concat()
}

fn notification(method: &str, params: &str) -> Action {
    let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\"{params}}}\n");
    Action::ToHost(line.into_bytes())
}

fn error(id: &[u8], why: &str) -> Vec<u8> {
    let message = serde_json::Value::from(format!("mcp-contain: {why}"));
    let error = format!("{{\"error\":{{\"code\":-32603,\"message\":{message}}}}}");
    answer(id, error.as_bytes())
}
