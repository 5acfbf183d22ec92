//! One member of a set: who it is, and how it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::ErrorChain;
use tokio::time::Instant;

use super::placement::Verdict;
use crate::{Executor, ExecutorError};

/// After a failure a member is passed over for this long, doubled by each
/// further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// At most for this long.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// An executor in an [`ExecutorSet`](super::ExecutorSet).
#[derive(Debug, Clone)]
pub struct Member {
    pub(super) name: String,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) capacity: u32,
}

impl Member {
    /// A member of this name, without labels, for up to 1024 processes: what
    /// `mcp-executor` allows a session unless told otherwise.
    pub fn new(name: impl Into<String>, executor: impl Executor) -> Self {
        Self {
            name: name.into(),
            executor: Arc::new(executor),
            labels: BTreeMap::new(),
            capacity: 1024,
        }
    }

    /// Adds a label that a process can ask for.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    pub(super) fn fingerprint(&self) -> Option<String> {
        let place = self.executor.fingerprint()?;
        let Self {
            name,
            labels,
            capacity,
            ..
        } = self;
        // Quoted, so that no name looks like two members.
        Some(format!("{name:?} {place:?} {labels:?} {capacity}"))
    }

    /// Sets how many processes of this set may run there at once.
    #[must_use]
    pub fn capacity(mut self, processes: u32) -> Self {
        self.capacity = processes;
        self
    }
}

/// The state of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberState {
    /// The member's name.
    pub name: String,
    /// Processes of this set that run there or are being started.
    pub running: u32,
    /// The number of processes that there may be.
    pub capacity: u32,
    /// True while the member gets no further processes.
    pub draining: bool,
    /// The health of the member.
    pub health: Health,
}

/// The health of a member, as of the last exchange with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// There was no exchange yet.
    Unknown,
    /// The member has answered.
    Reachable,
    /// The member could not be reached, or the connection was lost.
    Unreachable {
        /// Failures in a row.
        failures: u32,
        /// The last one, with its causes.
        error: String,
    },
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not connected yet"),
            Self::Reachable => f.write_str("reachable"),
            Self::Unreachable { error, .. } => f.write_str(error),
        }
    }
}

/// A member with what is known about it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) member: Member,
    pub(super) running: u32,
    pub(super) draining: bool,
    health: Health,
    /// Passed over until then: it could not be reached, or said that it is full.
    paused_until: Option<Instant>,
}

impl Record {
    pub(super) fn new(member: Member) -> Self {
        Self {
            member,
            running: 0,
            draining: false,
            health: Health::Unknown,
            paused_until: None,
        }
    }

    pub(super) fn state(&self) -> MemberState {
        MemberState {
            name: self.member.name.clone(),
            running: self.running,
            capacity: self.member.capacity,
            draining: self.draining,
            health: self.health.clone(),
        }
    }

    /// Takes note of how an exchange went.
    pub(super) fn heard(&mut self, error: Option<&ExecutorError>, now: Instant) {
        match error {
            Some(error) if is_unreachable(error) => {
                let failures = match &self.health {
                    Health::Unreachable { failures, .. } => failures.saturating_add(1),
                    Health::Unknown | Health::Reachable => 1,
                };
                let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(8));
                self.paused_until = Some(now + pause.min(LONGEST_PAUSE));
                self.health = Health::Unreachable {
                    failures,
                    error: ErrorChain(error).to_string(),
                };
            }
            Some(error) if is_about_the_member(error) => {
                self.health = Health::Reachable;
                self.paused_until = Some(now + FIRST_PAUSE);
            }
            // It has answered; what it refused is the caller's business.
            Some(_) | None => {
                self.health = Health::Reachable;
                self.paused_until = None;
            }
        }
    }

    pub(super) fn verdict(&self, labels: &BTreeMap<String, String>, now: Instant) -> Verdict {
        if self.draining || !self.has(labels) {
            return Verdict::Unsuitable;
        }
        match self.paused_until {
            Some(until) if now < until => Verdict::LastResort,
            _ => Verdict::Suitable,
        }
    }

    /// Why it takes no process that asks for these labels.
    pub(super) fn objection(&self, labels: &BTreeMap<String, String>) -> String {
        if self.draining {
            return "it is being drained".to_owned();
        }
        if !self.has(labels) {
            return "it does not have the labels that were asked for".to_owned();
        }
        let (running, capacity) = (self.running, self.member.capacity);
        format!("{running} of {capacity} processes run there")
    }

    fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = &self.member.labels;
        labels
            .iter()
            .all(|(name, value)| own.get(name) == Some(value))
    }
}

/// Whether another member may fare better: this one cannot be reached, or is full.
pub(super) fn is_about_the_member(error: &ExecutorError) -> bool {
    let is_full =
        matches!(error, ExecutorError::Refused { kind: Some(kind), .. } if kind == "limit");
    is_full || matches!(error, ExecutorError::NoPlace { .. }) || is_unreachable(error)
}

fn is_unreachable(error: &ExecutorError) -> bool {
    matches!(
        error,
        ExecutorError::Connect { .. }
            | ExecutorError::Lost { .. }
            | ExecutorError::SessionOver { .. }
            | ExecutorError::Timeout { .. }
    )
}
