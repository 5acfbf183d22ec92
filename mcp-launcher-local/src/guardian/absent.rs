//! Containment by guardian, where there is none: other Unix than Linux.

use std::convert::Infallible;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

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
}

pub(crate) fn probe(_namespaces: bool) -> Found {
    Found
}

pub(crate) fn known(_namespaces: bool) -> Option<Found> {
    Some(Found)
}

/// None is ever made.
#[derive(Debug)]
pub(crate) struct Spares;

impl Spares {
    pub(crate) fn new(_most: usize) -> Self {
        Self
    }

    pub(crate) fn warm_up(&self, plan: &Plan) -> usize {
        match plan.0 {}
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

pub(crate) fn spawn(
    _command: Command,
    plan: Plan,
    _containment: Containment,
    _spares: Option<&Spares>,
) -> Result<Spawned, LaunchErrorKind> {
    match plan.0 {}
}

const WHY: &str = "there is one on Linux only";
