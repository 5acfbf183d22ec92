//! One session with an executor, as a pure state machine: no I/O, no clock.
//!
//! The driver feeds it what happens, with the time, and carries out the
//! [`Effect`]s in order.
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
//! Calls survive the loss of a link: they are sent again after a resume, under
//! the same write id, so that the peer does nothing twice. A start that is sent
//! again and "already exists" has succeeded.

mod calls;
mod inbound;
mod link;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::ExecutorError;
use crate::protocol::InitializeResult;
use crate::protocol::extension::Lifecycle;

pub(crate) use calls::{Call, Purpose, Token, parse};
pub(crate) use link::LinkState;
pub(crate) use sequence::{ProcessEvent, Recovery, Sequencer};

/// The clocks and limits of a session.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    /// Deadline of a call.
    pub(crate) call: Duration,
    /// Deadline of `initialize`.
    pub(crate) hello: Duration,
    /// How long a lost link may take to come back.
    pub(crate) resume: Duration,
    /// Pause between attempts.
    pub(crate) retry: Duration,
    /// Silence after which a sign of life is asked for.
    pub(crate) keep_alive: Duration,
    /// Silence after which the link counts as lost.
    pub(crate) dead_after: Duration,
    /// How long an event may be missing before it is asked for.
    pub(crate) hole: Duration,
}

/// An order of the session to its driver.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Connect, and report `link_up` or `link_down`.
    Connect,
    /// Drop the link. `link_down` has been taken into account.
    Disconnect,
    /// Send this frame.
    Send(String),
    /// Ask for a sign of life.
    Ping,
    /// The session is open for the first time.
    Ready(Box<InitializeResult>),
    /// A call has an outcome: its result as JSON.
    Answered(Token, Result<String, ExecutorError>),
    /// The write that was under way for this process has an outcome.
    Written(
        String,
        Result<crate::protocol::process::WriteStatus, ExecutorError>,
    ),
    /// Something happened to a process.
    Event(String, ProcessEvent),
    /// A process cannot be followed any more.
    Failed(String, ExecutorError),
    /// The session is over.
    Dead(ExecutorError),
}

/// The session's knowledge of one process.
#[derive(Debug)]
struct Track {
    order: Sequencer,
    /// A recovery by read is under way.
    recovering: bool,
    /// Notifications are dropped; a recovery follows when the reader caught up.
    lagging: bool,
    hole_since: Option<Instant>,
    /// The gap that the last recovery ended in: the same one twice is real.
    gap: Option<(u64, u64)>,
    /// Events that arrived since the peer was last told.
    unacknowledged: u32,
    /// Bytes consumed of standard output and standard error.
    consumed: (u64, u64),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Session {
    timing: Timing,
    client_name: String,
    wish: Lifecycle,
    link: LinkState,
    /// When the link was lost, until it is back.
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
    /// Nothing is due before this.
    earliest: Instant,
    dead: Option<ExecutorError>,
}

impl Session {
    /// A session that begins with a connection attempt.
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

    /// The next thing to do.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The next thing to do, if that is to send this frame.
    pub(crate) fn next_frame(&mut self) -> Option<String> {
        match self.effects.pop_front()? {
            Effect::Send(frame) => Some(frame),
            other => {
                self.effects.push_front(other);
                None
            }
        }
    }

    /// Whether there is something to do.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// When [`tick`](Self::tick) wants to be called at the latest.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.earliest
    }

    /// Whether the peer knows our extensions.
    pub(crate) fn is_extended(&self) -> bool {
        self.lifecycle.is_some()
    }

    /// Whether output was agreed to come as it is.
    fn takes_raw_output(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|l| l.raw_output)
    }

    /// Begins to follow a process.
    pub(crate) fn track(&mut self, process_id: String) {
        self.tracks.insert(
            process_id,
            Track {
                order: Sequencer::new(),
                recovering: false,
                lagging: false,
                hole_since: None,
                gap: None,
                unacknowledged: 0,
                consumed: (0, 0),
            },
        );
    }

    /// Stops following a process.
    pub(crate) fn forget(&mut self, process_id: &str) {
        self.tracks.remove(process_id);
    }

    fn due(&mut self, when: Instant) {
        self.earliest = self.earliest.min(when);
    }
}
