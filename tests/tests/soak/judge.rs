//! Conditions that must hold, as the documentation declares. Pure.
//!
//! A proof is exact: whatever it covers is dead at that moment. Without one,
//! what must be dead in time depends on what is left of host and guardian, and
//! on what held the process (`docs/containment.md`).

use mcp_launcher_local::Isolation;

use crate::plan::{Plan, Trouble, What};
use crate::servers::{Held, Server};

/// The level that held a server, as its host said or as far as is known without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Group,
    Guardian,
    GuardianAndCgroup,
    /// With or without a cgroup besides: nobody says.
    Namespace,
}

/// The events so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    pub(crate) host_dead: bool,
    /// The guardian was killed, or may have been.
    pub(crate) guardian_killed: bool,
    /// The guardian was stopped, or may have been, and was not continued.
    pub(crate) guardian_stopped: bool,
    /// All of the host's cgroup was killed.
    pub(crate) cgroup_killed: bool,
    /// A next host has looked for orphans.
    pub(crate) reaped: bool,
}

impl Level {
    pub(crate) fn named(mechanism: &str) -> Self {
        match mechanism {
            "guardian" => Self::Guardian,
            "guardian and cgroup" => Self::GuardianAndCgroup,
            "PID namespace" => Self::Namespace,
            _ => Self::Group,
        }
    }

    /// The least that a server of this plan can have, where its host says nothing.
    pub(crate) fn least(plan: &Plan) -> Self {
        match plan.isolation {
            Isolation::ProcessGroup => Self::Group,
            _ => Self::Guardian,
        }
    }
}

/// Whether a process that is held like this is dead once its end was proven.
pub(crate) fn is_covered(level: Level, held: Held) -> bool {
    level != Level::Group || held.in_group
}

/// Whether a process must be dead a while after nobody wants it any more.
pub(crate) fn must_be_dead(level: Level, held: Held, facts: Facts) -> bool {
    if facts.cgroup_killed && held.in_cgroup && !held.headless {
        return true;
    }
    let by_mark = facts.host_dead && facts.reaped && held.marked;
    if level == Level::Group {
        return by_mark || (!facts.host_dead && held.in_group);
    }
    let guarded = !facts.guardian_killed && !facts.guardian_stopped;
    // By the host that lives, or by the next one.
    let somebody_looks = !facts.host_dead || facts.reaped;
    let by_cgroup = level == Level::GuardianAndCgroup && held.in_cgroup && somebody_looks;
    // Its first process dies with the guardian, and takes the others along.
    let by_kernel = level == Level::Namespace && !facts.guardian_stopped;
    (guarded && held.in_tree) || by_cgroup || by_kernel || by_mark
}

/// Whether the end of a server whose host lives may be without proof; `again`: also
/// when it is asked for once more, with descriptors, and with the guardian continued.
pub(crate) fn may_be_unproven(plan: &Plan, level: Level, facts: Facts, again: bool) -> bool {
    let somebody_hides = || plan.servers.iter().any(|server| hides(plan, server, level));
    let without_guardian = match level {
        Level::Group | Level::Namespace => false,
        // Nobody can tell whose they are who say nothing: also of the next server.
        Level::Guardian | Level::GuardianAndCgroup => facts.guardian_killed && somebody_hides(),
    };
    let stopped = level != Level::Group && facts.guardian_stopped;
    let passing = stopped || plan.trouble == Trouble::NoDescriptors;
    without_guardian || (passing && !again)
}

/// Whether somebody of this server says nothing of whose it is, and is nowhere where
/// it is ended all the same once the guardian has gone.
fn hides(plan: &Plan, server: &Server, level: Level) -> bool {
    let roles = ["wiped-env", "undumpable", "other-user"];
    let mut held = roles.into_iter().filter(|role| server.starts(role));
    held.any(|role| {
        let held = server.held(role, !plan.unprivileged);
        !(held.marked || level == Level::GuardianAndCgroup && held.in_cgroup)
    })
}

/// Whether a start may fail.
pub(crate) fn may_fail(plan: &Plan, server: &Server) -> bool {
    let starved = matches!(
        plan.trouble,
        Trouble::Descriptors(_) | Trouble::Processes(_) | Trouble::ObserverPanics(_)
    );
    let hurt = plan
        .fault
        .is_some_and(|fault| fault.what != What::StopHostForAWhile);
    starved || hurt || !server.must_start()
}
