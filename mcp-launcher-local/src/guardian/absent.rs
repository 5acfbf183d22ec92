//! Containment by guardian, where there is none: other Unix than Linux and macOS.

#[path = "no_spares.rs"]
mod no_spares;

use std::convert::Infallible;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

pub(crate) use self::no_spares::Spares;
use crate::command::Command;

/// Never started.
pub(crate) struct Spawned(Infallible);

/// Never made.
#[derive(Debug, Clone)]
pub(crate) struct Plan(Infallible);

/// Nothing is looked for.
pub(crate) struct Found;

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.0 {}
    }
}

impl Plan {
    pub(crate) fn guardian(_found: &Found) -> Result<Self, &'static str> {
        Err(WHY)
    }

    pub(crate) fn namespace(_found: &Found) -> Result<Self, &'static str> {
        Err(WHY)
    }

    pub(crate) fn with_grace(self, _grace: Duration) -> Self {
        match self.0 {}
    }

    pub(crate) fn containment(&self) -> Containment {
        match self.0 {}
    }

    fn no_spares(&self) -> usize {
        match self.0 {}
    }
}

pub(crate) fn probe(_namespaces: bool) -> Found {
    Found
}

pub(crate) fn known(_namespaces: bool) -> Option<Found> {
    Some(Found)
}

pub(crate) fn spawn(
    _command: Command,
    plan: Plan,
    _containment: Containment,
    _spares: Option<&Spares>,
) -> Result<Spawned, LaunchErrorKind> {
    match plan.0 {}
}

const WHY: &str = "there is one on Linux and macOS only";
