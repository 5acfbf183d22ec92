//! The state of a process group: its conclusion, its members, and those that had to be ended.

use std::collections::BTreeMap;

use crate::sys::{self, Member, Pid};
use mcp_tree::conclusion::Conclusion;

#[derive(Debug)]
pub(super) struct State {
    pub(super) conclusion: Conclusion,
    /// The leader is reaped. The lock is held while a signal needs its number.
    pub(super) is_reaped: bool,
    pub(super) is_killed: bool,
    pub(super) is_queued: bool,
    /// The member that is watched for its end.
    pub(super) waits_for: Option<Pid>,
    /// Members found from now on count as swept.
    sweeps: bool,
    /// The members besides the leader at the last listing, and all that were swept.
    known: BTreeMap<Pid, Known>,
}

#[derive(Debug)]
struct Known {
    name: String,
    /// It was signalled after the leader's exit, or killed with it.
    swept: bool,
}

/// The maximum of members that are checked for existence when they are killed.
const ASKED_MAX: usize = 64;

impl State {
    pub(super) fn new() -> Self {
        Self {
            conclusion: Conclusion::of_group(),
            is_reaped: false,
            is_killed: false,
            is_queued: false,
            waits_for: None,
            sweeps: false,
            known: BTreeMap::new(),
        }
    }

    /// Marks the members besides the leader as swept, before a signal: neither blocks nor
    /// allocates.
    pub(super) fn sweep(&mut self, group: Pid) {
        self.sweeps = true;
        let known = self.known.iter_mut().filter(|(_, known)| !known.swept);
        for (pid, known) in known.take(ASKED_MAX) {
            known.swept = sys::is_in_group(*pid, group);
        }
    }

    pub(super) fn note(&mut self, members: &[Member], leader: Pid) {
        let swept = self.sweeps;
        self.known.retain(|_, known| known.swept);
        for member in members.iter().filter(|member| member.pid != leader) {
            let known = self.known.entry(member.pid);
            known.or_insert_with(|| Known {
                name: member.name.clone(),
                swept,
            });
        }
    }

    /// Returns the swept members, as far as they were seen.
    pub(super) fn swept(&self) -> Vec<(u32, String)> {
        let swept = self.known.iter().filter(|(_, known)| known.swept);
        swept
            .map(|(pid, known)| (pid.as_u32(), known.name.clone()))
            .collect()
    }
}
