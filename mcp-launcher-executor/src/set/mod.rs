//! [`ExecutorSet`]: many executors as one.
//!
//! ```text
//! placement ─ PURE: which member takes the next process
//! members ─── all of them, and a watch on their states
//! member ──── one executor: its labels, its load, whether it can be reached
//! placed ──── a process that gives its place back when it is gone
//! ```
//!
//! The states of a member and what is not guaranteed are in `docs/executor.md`.

mod member;
mod members;
mod placed;
mod placement;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use mcp_lifecycle_core::launch::{
    Containment, ErrorChain, Reach, ReapReport, Remnant, TerminationSemantics, UnknownRemnant,
};
use tokio::sync::watch;

pub use member::{Health, Member, MemberState};

use self::member::Record;
use self::members::Members;
use self::placed::Placed;
use crate::{Executor, ExecutorError, RemoteCommand, StartedProcess};

/// Starts each process on one of several executors.
///
/// A process goes to the reachable member with the lowest load, as a share of
/// its [capacity](Member::capacity), among those that have the labels which the
/// process asks for. A member that cannot be reached, or that answers that it
/// is full, is passed over and the next one is tried; so a start fails only
/// when no member can take it. A program that does not exist on the chosen
/// member is an error and is not looked for elsewhere.
///
/// A set connects to nobody by itself: each member connects at its first start
/// or [`check`](Self::check).
///
/// Clones share the same members.
///
/// # Drop
///
/// Processes live on until they are dropped as well.
#[derive(Clone)]
pub struct ExecutorSet {
    members: Arc<Members>,
}

/// A set has no member of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the set has no executor `{name}`")]
#[non_exhaustive]
pub struct UnknownMember {
    /// The name that was asked for.
    pub name: String,
}

impl ExecutorSet {
    /// A set of these members. A later member replaces an earlier one of the
    /// same name.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut records: Vec<Record> = Vec::new();
        for member in members {
            records.retain(|record| record.member.name != member.name);
            records.push(Record::new(member));
        }
        Self {
            members: Arc::new(Members::new(records)),
        }
    }

    /// The members as they are now.
    pub fn states(&self) -> Vec<MemberState> {
        self.members.states()
    }

    /// The members as they change.
    pub fn subscribe(&self) -> watch::Receiver<Vec<MemberState>> {
        self.members.subscribe()
    }

    /// Starts nothing more on this member. Its processes go on.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`].
    pub fn drain(&self, name: &str) -> Result<(), UnknownMember> {
        self.set_draining(name, true)
    }

    /// Starts processes on this member again.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`].
    pub fn undrain(&self, name: &str) -> Result<(), UnknownMember> {
        self.set_draining(name, false)
    }

    /// Completes when no process of this set runs on the member.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn idle(&self, name: &str) -> Result<(), UnknownMember> {
        let mut changes = self.subscribe();
        let find = |states: &Vec<MemberState>| {
            let state = states.iter().find(|state| state.name == name);
            state.map(|state| state.running)
        };
        let states = changes.wait_for(|states| matches!(find(states), None | Some(0)));
        match states.await.ok().and_then(|states| find(&states)) {
            Some(_) => Ok(()),
            None => Err(unknown(name)),
        }
    }

    /// Finds out which members can be reached, all at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: members that have not answered keep their earlier state.
    pub async fn check(&self) {
        let executors = self.members.executors();
        join_all(executors.iter().enumerate().map(async |(index, executor)| {
            let outcome = executor.check().await;
            self.members.heard(index, outcome.as_ref().err());
        }))
        .await;
    }

    /// [Checks](Self::check) at this interval, for ever. Spawn it, and abort it
    /// to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn check_every(self, interval: Duration) {
        loop {
            self.check().await;
            tokio::time::sleep(interval).await;
        }
    }

    fn set_draining(&self, name: &str, draining: bool) -> Result<(), UnknownMember> {
        self.members.change(|records| {
            let record = records.iter_mut().find(|r| r.member.name == name);
            record.ok_or_else(|| unknown(name))?.draining = draining;
            Ok(())
        })
    }
}

#[async_trait]
impl Executor for ExecutorSet {
    fn name(&self) -> String {
        let records = self.members.records.lock();
        let names: Vec<_> = records.iter().map(|r| r.member.name.as_str()).collect();
        names.join(", ")
    }

    /// A set that is built again of equal members starts processes in the same
    /// places; loads and drains are each set's own.
    fn fingerprint(&self) -> Option<String> {
        self.members.fingerprint()
    }

    /// The least that any member promises, for the next process may be its.
    fn semantics(&self) -> TerminationSemantics {
        let records = self.members.records.lock();
        let all = records
            .iter()
            .map(|record| record.member.executor.semantics());
        all.reduce(least).unwrap_or_else(|| {
            TerminationSemantics::new(Containment::new("an empty set", Reach::Nothing))
                .with_stdin_eof()
                .with_polite_signal()
        })
    }

    async fn start(&self, command: &RemoteCommand) -> Result<StartedProcess, ExecutorError> {
        let plain = RemoteCommand {
            labels: Default::default(),
            ..command.clone()
        };
        let mut errors: Vec<(usize, ExecutorError)> = Vec::new();
        loop {
            let tried: Vec<_> = errors.iter().map(|(index, _)| *index).collect();
            let Some((index, executor)) = self.members.reserve(command, &tried) else {
                return Err(ExecutorError::NoPlace {
                    why: self.members.refusals(command, &errors),
                });
            };
            // Gives the place back if this is dropped before there is a process.
            let place = placed::Place::new(Arc::clone(&self.members), index);
            match executor.start(&plain).await {
                Ok(started) => {
                    self.members.heard(index, None);
                    return Ok(StartedProcess {
                        process: Arc::new(Placed::new(started.process, place)),
                        ..started
                    });
                }
                Err(error) => {
                    self.members.heard(index, Some(&error));
                    if !member::is_about_the_member(&error) {
                        return Err(error);
                    }
                    errors.push((index, error));
                }
            }
        }
    }

    async fn check(&self) -> Result<(), ExecutorError> {
        Self::check(self).await;
        let states = self.states();
        if states.iter().any(|state| state.health == Health::Reachable) {
            return Ok(());
        }
        let lines = states
            .iter()
            .map(|state| format!("{}: {}", state.name, state.health));
        Err(ExecutorError::NoPlace {
            why: lines.collect::<Vec<_>>().join("; "),
        })
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ExecutorError> {
        let executors = self.members.executors();
        let mut all = ReapReport::new();
        let reports = join_all(executors.iter().map(|executor| executor.reap_orphans())).await;
        for (executor, report) in executors.iter().zip(reports) {
            match report {
                Ok(report) => {
                    all.ended.extend(report.ended);
                    all.failed.extend(report.failed);
                    all.spared.extend(report.spared);
                    all.unknown.extend(report.unknown);
                }
                // What the others have found counts all the same.
                Err(error) => all.unknown.push(UnknownRemnant::new(
                    Remnant::record(executor.name(), "executor"),
                    ErrorChain(&error).to_string(),
                )),
            }
        }
        Ok(all)
    }
}

/// The semantics of a process of which it is not known who of the two runs it.
fn least(one: TerminationSemantics, other: TerminationSemantics) -> TerminationSemantics {
    let reach =
        |s: &TerminationSemantics| (s.containment.on_terminate, s.containment.on_host_death);
    let (mut weaker, stronger) = match reach(&one) <= reach(&other) {
        true => (one, other),
        false => (other, one),
    };
    weaker.stdin_eof &= stronger.stdin_eof;
    weaker.polite_signal &= stronger.polite_signal;
    let (least, more) = (&mut weaker.containment, stronger.containment);
    least.on_host_death = least.on_host_death.min(more.on_host_death);
    least.placement_is_atomic &= more.placement_is_atomic;
    weaker
}

fn unknown(name: &str) -> UnknownMember {
    UnknownMember {
        name: name.to_owned(),
    }
}

impl fmt::Debug for ExecutorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.states()).finish()
    }
}
