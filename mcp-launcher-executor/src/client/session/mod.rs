//! One session with an executor, as a pure state machine: no I/O, no clock. The driver passes
//! events with the time, and carries out the [`Effect`]s in order.
//!
//! ```text
//!              connected            initialize answered
//!  Connecting ───────────▶ Hello ─────────────────────────▶ Up
//!      ▲                     │ lost, attached elsewhere      │ lost, silent,
//!      │ retry is due        ▼                               │ a call overdue
//!      └───────────────── Waiting ◀──────────────────────────┘
//!                            │ window over, session unknown, not resumable
//!                            ▼
//!                           Dead: every call and process fails, for good
//! ```
//!
//! Calls survive the loss of a link: they are sent again after a resume, with the same write ID, so
//! that the peer does nothing twice. A repeated start that "already exists" has succeeded.

mod calls;
mod inbound;
mod link;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::protocol::InitializeResult;
use crate::protocol::extension::Lifecycle;
use crate::{ExecutorError, Result};

pub(crate) use calls::{Call, Purpose, Token, parse};
pub(crate) use link::LinkState;
pub(crate) use sequence::{ProcessEvent, Recovery, Sequencer};

#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) call: Duration,
    pub(crate) hello: Duration,
    pub(crate) resume: Duration,
    pub(crate) retry: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) dead_after: Duration,
    /// Time after which a missing event is requested.
    pub(crate) hole: Duration,
}

#[derive(Debug)]
pub(crate) enum Effect {
    /// Connect, and report `link_up` or `link_down`.
    Connect,
    /// Drop the link, without reporting `link_down`.
    Disconnect,
    Send(String),
    Ping,
    Ready(Box<InitializeResult>),
    Answered(Token, Result<String>),
    /// The write in flight of this process has an outcome.
    Written(String, Result<crate::protocol::process::WriteStatus>),
    Event(String, ProcessEvent),
    /// A process cannot be followed any more.
    Failed(String, ExecutorError),
    Dead(ExecutorError),
}

#[derive(Debug, Default)]
struct Track {
    order: Sequencer,
    recovering: bool,
    /// Notifications are dropped; a recovery follows when the reader has caught up.
    lagging: bool,
    hole_since: Option<Instant>,
    /// The gap after the last recovery: a second time it is final.
    gap: Option<(u64, u64)>,
    unacknowledged: u32,
    consumed: (u64, u64),
}

#[derive(Debug)]
pub(crate) struct Session {
    timing: Timing,
    client_name: String,
    wish: Lifecycle,
    link: LinkState,
    /// When the link was lost, until it is resumed.
    lost_at: Option<Instant>,
    session_id: Option<String>,
    /// The agreed extensions; `None` with a plain peer.
    lifecycle: Option<Lifecycle>,
    next_id: i64,
    calls: BTreeMap<i64, Call>,
    tracks: HashMap<String, Track>,
    effects: VecDeque<Effect>,
    heard: Instant,
    pinged: Instant,
    /// Earliest time at which something is due.
    earliest: Instant,
    dead: Option<ExecutorError>,
}

impl Session {
    pub(crate) fn new(timing: Timing, client_name: String, wish: Lifecycle, now: Instant) -> Self {
        Self {
            client_name,
            wish,
            link: LinkState::Connecting,
            lost_at: None,
            session_id: None,
            lifecycle: None,
            next_id: 1,
            calls: BTreeMap::new(),
            tracks: HashMap::new(),
            effects: VecDeque::from([Effect::Connect]),
            heard: now,
            pinged: now,
            earliest: now + timing.keep_alive,
            dead: None,
            timing,
        }
    }

    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn next_frame(&mut self) -> Option<String> {
        match self.effects.pop_front()? {
            Effect::Send(frame) => Some(frame),
            other => {
                self.effects.push_front(other);
                None
            }
        }
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Returns the latest time for the next [`tick`](Self::tick).
    pub(crate) fn next_deadline(&self) -> Instant {
        self.earliest
    }

    pub(crate) fn is_extended(&self) -> bool {
        self.lifecycle.is_some()
    }

    pub(crate) fn track(&mut self, process_id: String) {
        self.tracks.insert(process_id, Track::default());
    }

    pub(crate) fn forget(&mut self, process_id: &str) {
        self.tracks.remove(process_id);
    }

    fn due(&mut self, when: Instant) {
        self.earliest = self.earliest.min(when);
    }
}
