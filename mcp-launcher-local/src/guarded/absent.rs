//! Containment by guardian, where there is none: other Unix than Linux.

use std::convert::Infallible;

use mcp_lifecycle_core::error::LaunchErrorKind;
use mcp_lifecycle_core::{Containment, LaunchedServer, Reach};

use crate::command::Command;

/// Never started.
pub(crate) struct Spawned(Infallible);

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.0 {}
    }
}

pub(crate) fn spawn(_command: Command, _pid_namespace: bool) -> Result<Spawned, LaunchErrorKind> {
    Err(LaunchErrorKind::backend("the guardian", WHY))
}

pub(crate) fn unavailable() -> Option<&'static str> {
    Some(WHY)
}

pub(crate) fn namespace_containment() -> Result<Containment, &'static str> {
    Err(WHY)
}

pub(crate) fn containment() -> Containment {
    Containment::new("none", Reach::Nothing)
}

const WHY: &str = "there is one on Linux only";
