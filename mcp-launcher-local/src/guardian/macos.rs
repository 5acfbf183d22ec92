//! Containment by guardian on macOS: one that is the host's own program, if that allows it.

#[path = "no_spares.rs"]
mod no_spares;

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

pub(crate) use self::no_spares::Spares;
use crate::command::Command;
use crate::reexec;

/// Its guardian has said that it is there.
pub(crate) struct Spawned(LaunchedServer);

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    grace: Duration,
}

/// Nothing is looked for: it is known.
pub(crate) struct Found;

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        Ok(self.0)
    }
}

impl Plan {
    pub(crate) fn guardian(_found: &Found) -> Result<Self, &'static str> {
        reexec::ready().map(|()| Self {
            grace: Duration::ZERO,
        })
    }

    pub(crate) fn namespace(_found: &Found) -> Result<Self, &'static str> {
        Err("there is one on Linux only")
    }

    pub(crate) fn with_grace(self, grace: Duration) -> Self {
        Self { grace }
    }

    pub(crate) fn containment(&self) -> Containment {
        reexec::containment()
    }

    /// A spare would be a second process of the host's program, which nobody has measured.
    fn no_spares(&self) -> usize {
        0
    }
}

pub(crate) fn probe(_namespaces: bool) -> Found {
    Found
}

pub(crate) fn known(_namespaces: bool) -> Option<Found> {
    Some(Found)
}

pub(crate) fn spawn(
    command: Command,
    plan: Plan,
    containment: Containment,
    _spares: Option<&Spares>,
) -> Result<Spawned, LaunchErrorKind> {
    reexec::spawn(&command, plan.grace, containment).map(Spawned)
}
