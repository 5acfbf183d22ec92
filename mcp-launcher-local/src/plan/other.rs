//! The containment of a server where there is one level alone: a job object, or a process group.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
#[cfg(unix)]
use crate::group as only;
#[cfg(windows)]
use crate::job as only;
use crate::level::Isolation;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    containment: Containment,
}

pub(crate) struct Spawned(LaunchedServer);

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        Ok(self.0)
    }
}

impl Plan {
    pub(crate) fn choose(isolation: Isolation) -> Self {
        let containment = only::containment();
        let is_fallback = cfg!(unix) && isolation != Isolation::ProcessGroup;
        let containment = match is_fallback {
            true => containment.fallback("no guardian: there is one on Linux only"),
            false => containment,
        };
        Self { containment }
    }

    pub(crate) fn known(isolation: Isolation) -> Option<Self> {
        Some(Self::choose(isolation))
    }

    /// Has no effect: the server's end follows its host's at once.
    pub(crate) fn with_posthumous_grace(self, _: Duration) -> Self {
        self
    }

    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    pub(crate) fn spawn(self, command: Command) -> Result<Spawned, LaunchErrorKind> {
        only::spawn(&command, self.containment).map(Spawned)
    }
}
