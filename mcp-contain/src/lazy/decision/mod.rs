//! Decides what a relay does: events in, actions out. It has no clock and does no I/O.
//!
//! - [`words`]: what is told to it, and what it orders
//! - [`host`]: a line of the host
//! - [`server`]: a line of the server
//! - [`own`]: an answer to what the relay has asked itself
//! - [`life`]: start, handshake, idleness, end
//! - [`flight`]: the requests that have no answer yet
//! - [`bounds`]: how much is remembered

mod bounds;
mod flight;
mod host;
mod life;
mod own;
mod server;
pub(super) mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use bounds::KEPT;
use flight::Flight;
use words::{Action, Digest, Key, List, Policy};

use super::message::Id;

/// A relay, without its descriptors.
#[derive(Debug)]
pub(super) struct Relay {
    policy: Policy,
    phase: Phase,
    /// When something last used the server.
    used: Duration,
    /// When it was started.
    started: Duration,
    /// How often in a row it ended soon after its start.
    failures: u32,

    /// The requests of the host that have no answer yet.
    flight: Flight,
    /// The requests of the server that have no answer yet.
    asked: HashMap<Id, Box<[u8]>>,
    /// Those of servers that have ended: the host may still answer them.
    unanswered: HashSet<Id>,
    /// There were more of them than are kept account of.
    has_forgotten: bool,
    /// The last request of the host was refused, because too many have no answer.
    has_refused: bool,
    /// The questions of the relay itself to this server.
    own: HashMap<Id, Own>,
    /// Lines of the host that no server has been given yet.
    held: Vec<u8>,
    /// An `initialize` is among them.
    holds_handshake: bool,
    /// The last line that was too long to be looked at.
    long: Long,

    /// The host's `initialize`.
    handshake: Option<Handshake>,
    /// Its `notifications/initialized`.
    initialized: Option<Rc<[u8]>>,
    /// Its last `logging/setLevel`.
    level: Option<Said>,
    /// Its subscriptions, by URI.
    subscriptions: BTreeMap<Box<[u8]>, Said>,
    /// The lists that it has seen, and the answer to `server/discover`.
    seen: BTreeMap<Key, Seen>,

    /// The host spoke as before 2026-07-28.
    is_legacy: bool,
    /// This server may work at something that is no request in flight.
    is_kept: bool,
    /// The host has closed its end.
    has_host_closed: bool,
    /// The server's input was closed.
    is_closed: bool,
    /// It is closed by then, whatever there is to be written to a server that may not read.
    cut: Option<Duration>,
    /// No server is started any more.
    is_leaving: bool,
}

/// The state of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asleep,
    /// It ended too often: not before then.
    Waiting {
        until: Duration,
    },
    /// It was sent a handshake, and has not answered.
    Starting,
    Running,
    /// Its input was closed, because nobody uses it.
    Ending,
    /// The same, because it cannot be used.
    Failing,
}

/// What became of the first part of a line: the others follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Long {
    /// It waits for a server.
    Held,
    /// The server has it.
    Given,
    /// It has gone with its server.
    Lost,
}

/// A question that the relay asks on its own account.
#[derive(Debug)]
enum Own {
    Handshake,
    /// An answer that the host has [`Seen`].
    Renewal(Key),
    /// Level and subscriptions: no matter what it answers.
    State,
}

/// A request that is said again.
#[derive(Debug)]
struct Said {
    id: Id,
    line: Rc<[u8]>,
}

#[derive(Debug)]
struct Handshake {
    id: Id,
    line: Rc<[u8]>,
    key: Option<Key>,
    /// The protocol version of the answer that the host was given.
    version: Option<Box<[u8]>>,
}

/// An answer as the host knows it.
#[derive(Debug)]
struct Seen {
    /// None of `server/discover`.
    list: Option<List>,
    id: Id,
    line: Rc<[u8]>,
    digest: Digest,
}

impl Relay {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            phase: Phase::Asleep,
            used: Duration::ZERO,
            started: Duration::ZERO,
            failures: 0,
            flight: Flight::default(),
            asked: HashMap::new(),
            unanswered: HashSet::new(),
            has_forgotten: false,
            has_refused: false,
            own: HashMap::new(),
            held: Vec::new(),
            holds_handshake: false,
            long: Long::Lost,
            handshake: None,
            initialized: None,
            level: None,
            subscriptions: BTreeMap::new(),
            seen: BTreeMap::new(),
            is_legacy: false,
            is_kept: false,
            has_host_closed: false,
            is_closed: false,
            cut: None,
            is_leaving: false,
        }
    }

    /// Whether lines of the host go to a server, and not into memory.
    pub(super) fn passes(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether no server follows the one that ends now.
    pub(super) fn is_last(&self) -> bool {
        self.is_leaving
            || self.has_host_closed
            || !(self.policy.restart || self.phase == Phase::Ending)
    }

    /// The number of bytes that wait for a server.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the host is answered by the relay itself, so that it has to read before it is heard again.
    pub(super) fn answers(&self) -> bool {
        !self.passes() || self.has_refused
    }

    /// Keeps account of what the host knows, if there is room for it.
    fn remember(&mut self, key: Key, list: Option<List>, id: Id, line: Rc<[u8]>, digest: Digest) {
        self.seen.remove(&key);
        let sizes = self.seen.values().map(|seen| seen.line.len());
        if KEPT.allows_beside(sizes, line.len()) {
            let seen = Seen {
                list,
                id,
                line,
                digest,
            };
            self.seen.insert(key, seen);
        }
    }

    /// Whether the relay has to know the digest and the version of this answer.
    pub(super) fn is_of_interest(&self, id: &Id) -> bool {
        self.own.contains_key(id) || self.flight.is_cacheable(id)
    }
}

/// An answer of the relay itself, as a line.
fn answer(id: &[u8], rest: &str) -> Vec<u8> {
    let mut line = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    line.extend_from_slice(id);
    line.push(b',');
    line.extend_from_slice(rest.as_bytes());
    line.extend_from_slice(b"}\n");
    line
}

/// An error in place of the server's answer to the request of this id.
fn refusal(id: &[u8], why: &str) -> Action {
    Action::Say(error(id, why))
}

/// An error that answers the request of this id, as a line.
fn error(id: &[u8], why: &str) -> Vec<u8> {
    let message = serde_json::Value::from(format!("mcp-contain: {why}"));
    answer(
        id,
        &format!("\"error\":{{\"code\":-32603,\"message\":{message}}}"),
    )
}
