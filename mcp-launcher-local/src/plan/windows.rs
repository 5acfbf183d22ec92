//! How a server is held together: in a job object, and in no other way.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
use crate::job;
use crate::level::{Isolation, Limits};

/// How the next server is going to be held together.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    limits: Limits,
    containment: Containment,
}

/// Nothing: a job needs no guardian.
#[derive(Debug)]
pub(crate) struct Spares;

impl Spares {
    pub(crate) fn new(_: usize) -> Self {
        Self
    }

    pub(crate) fn launching(&self) -> Launching {
        Launching
    }

    pub(crate) fn launched(&self) {}

    pub(crate) fn give_up(&self) {}
}

/// A start during which none is made.
#[derive(Debug)]
pub(crate) struct Launching;

/// A server that runs.
pub(crate) struct Spawned(LaunchedServer);

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        Ok(self.0)
    }
}

impl Plan {
    /// There is one, and it is available everywhere.
    pub(crate) fn choose(_: Isolation) -> Self {
        Self {
            limits: Limits::default(),
            containment: job::containment(),
        }
    }

    pub(crate) fn known(isolation: Isolation) -> Option<Self> {
        Some(Self::choose(isolation))
    }

    /// The kernel ends a job at once when its owner is gone.
    pub(crate) fn with_posthumous_grace(self, _: Duration) -> Self {
        self
    }

    pub(crate) fn with_limits(self, limits: Limits) -> Result<Self, LaunchErrorKind> {
        Ok(Self { limits, ..self })
    }

    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    pub(crate) fn warm_up(&self, _: &Spares) -> usize {
        0
    }

    pub(crate) fn spawn(
        self,
        command: Command,
        _: Option<&Spares>,
    ) -> Result<Spawned, LaunchErrorKind> {
        job::spawn(&command, self.limits, self.containment).map(Spawned)
    }
}
