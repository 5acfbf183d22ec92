//! The leftovers of dead hosts, as `doctor` and `reap --dry-run` show it.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};
use mcp_tree::inventory::{HostState, KnownServer};

use super::ps;
use crate::containers;
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{units, unknown};

pub(super) struct Left {
    /// Servers of dead hosts with a ledger.
    pub(super) orphans: Vec<KnownServer>,
    pub(super) running: usize,
    pub(super) containers: Vec<Remnant>,
    /// Places that could not be examined: there may be more.
    pub(super) unknown: Vec<UnknownRemnant>,
}

impl Left {
    pub(super) fn look() -> Result<Self, Failure> {
        let seen = ps::look()?;
        let (mut orphans, alive): (Vec<_>, Vec<_>) = seen
            .servers
            .into_iter()
            .partition(|server| server.host.state == HostState::Dead);
        orphans.retain(|server| !server.processes.is_empty());
        let (containers, unseen) = containers::look();
        Ok(Self {
            orphans,
            running: alive.len(),
            containers,
            unknown: [seen.unknown, unseen].concat(),
        })
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = String> {
        self.orphans.iter().map(|it| {
            let pid = it.leader.or(it.processes.first().map(|it| it.pid));
            let (name, number) = (ps::name_of(it), it.processes.len());
            line(&name, pid.unwrap_or(0), number, it.memory(), it.age())
        })
    }

    /// Lists the containers, and what could not be examined.
    pub(super) fn others(&self) -> impl Iterator<Item = String> {
        let containers = self.containers.iter();
        let containers = containers.map(|it| format!("  {}", one_line(&it.to_string())));
        containers.chain(unknown::lines(&self.unknown))
    }
}

/// Returns a sentence to add if something could not be examined.
pub(super) fn unless(is_complete: bool) -> &'static str {
    match is_complete {
        true => "",
        false => " Not everything could be looked at.",
    }
}

pub(super) fn line(name: &str, pid: u32, number: usize, memory: u64, age: Duration) -> String {
    let processes = units::count(number, "process", "processes");
    let (memory, age) = (units::size(memory), units::time(age));
    format!("  {name}: pid {pid}, {processes}, {memory}, for {age}")
}

pub(super) fn texts(remnants: &[Remnant]) -> Vec<String> {
    remnants.iter().map(Remnant::to_string).collect()
}
