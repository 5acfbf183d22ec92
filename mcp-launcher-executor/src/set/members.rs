//! The members of a set and their state.

use std::fmt;
use std::sync::Arc;

use mcp_lifecycle_core::launch::ErrorChain;
use tokio::sync::watch;
use tokio::time::Instant;

use super::member::{MemberState, Record};
use super::placement::{self, Candidate, Verdict};
use crate::mutex::Mutex;
use crate::{Executor, ExecutorError, RemoteCommand};

/// The members and their state, shared with the processes that they run.
pub(super) struct Members {
    pub(super) records: Mutex<Vec<Record>>,
    changes: watch::Sender<Vec<MemberState>>,
}

impl Members {
    pub(super) fn new(records: Vec<Record>) -> Self {
        let states = records.iter().map(Record::state);
        Self {
            changes: watch::Sender::new(states.collect()),
            records: Mutex::new(records),
        }
    }

    pub(super) fn states(&self) -> Vec<MemberState> {
        self.records.lock().iter().map(Record::state).collect()
    }

    /// The members as they change.
    pub(super) fn subscribe(&self) -> watch::Receiver<Vec<MemberState>> {
        self.changes.subscribe()
    }

    /// The executors, in the order of the members.
    pub(super) fn executors(&self) -> Vec<Arc<dyn Executor>> {
        let executor = |record: &Record| Arc::clone(&record.member.executor);
        self.records.lock().iter().map(executor).collect()
    }

    /// Equal for members that are equal in all that decides where a process
    /// runs; `None` if one of them is equal only to itself.
    pub(super) fn fingerprint(&self) -> Option<String> {
        let records = self.records.lock();
        let members = records.iter().map(|record| record.member.fingerprint());
        Some(members.collect::<Option<Vec<_>>>()?.join("; "))
    }
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<Record>) -> T) -> T {
        let mut records = self.records.lock();
        let changed = change(&mut records);
        self.changes.send_if_modified(|states| {
            let new: Vec<_> = records.iter().map(Record::state).collect();
            let is_new = *states != new;
            *states = new;
            is_new
        });
        changed
    }

    /// Chooses a member that has not been `tried` and counts a process there.
    pub(super) fn reserve(
        &self,
        command: &RemoteCommand,
        tried: &[usize],
    ) -> Option<(usize, Arc<dyn Executor>)> {
        self.change(|records| {
            let now = Instant::now();
            let candidates = records.iter().enumerate().map(|(index, record)| Candidate {
                verdict: match tried.contains(&index) {
                    true => Verdict::Unsuitable,
                    false => record.verdict(&command.labels, now),
                },
                running: record.running,
                capacity: record.member.capacity,
            });
            let index = placement::choose(candidates)?;
            let record = records.get_mut(index)?;
            record.running += 1;
            Some((index, Arc::clone(&record.member.executor)))
        })
    }

    /// A process of this member is gone, or was never started.
    pub(super) fn release(&self, index: usize) {
        self.change(|records| {
            if let Some(record) = records.get_mut(index) {
                record.running = record.running.saturating_sub(1);
            }
        });
    }

    /// Records what an exchange with this member says about it.
    pub(super) fn heard(&self, index: usize, error: Option<&ExecutorError>) {
        self.change(|records| {
            if let Some(record) = records.get_mut(index) {
                record.heard(error, Instant::now());
            }
        });
    }

    /// Why no member takes a process, one clause per member.
    pub(super) fn refusals(
        &self,
        command: &RemoteCommand,
        errors: &[(usize, ExecutorError)],
    ) -> String {
        let records = self.records.lock();
        let lines = records.iter().enumerate().map(|(index, record)| {
            let name = &record.member.name;
            match errors.iter().find(|(tried, _)| *tried == index) {
                Some((_, error)) => {
                    format!("{name}: {}", ErrorChain(error))
                }
                None => format!("{name}: {}", record.objection(&command.labels)),
            }
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").finish_non_exhaustive()
    }
}
