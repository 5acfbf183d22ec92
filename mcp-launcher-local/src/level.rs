//! Which mechanism holds the processes of a server together, and what happens
//! where it is not available.

use mcp_lifecycle_core::error::LaunchErrorKind;
use mcp_lifecycle_core::{Containment, LaunchedServer};

use crate::command::Command;
use crate::{group, guarded};

/// What holds the processes of a server together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// A guardian: a small process between host and server that ends every
    /// descendant, also those that left the process group, and also when the
    /// host is killed. Linux; elsewhere, and where the system refuses it, a
    /// process group, which the launcher's semantics then say.
    #[default]
    Guardian,
    /// A guardian, and a PID namespace for the server: the kernel ends all of
    /// it when the guardian ends, even when that is killed. Linux, where the
    /// user may make one; elsewhere as [`Guardian`](Self::Guardian).
    ///
    /// The server sees pids of its own, while `/proc` still shows the host's:
    /// what looks itself up there (`ps`, pid files) is led astray.
    PidNamespace,
    /// A process group alone: reaches whoever stays in it, and nothing when
    /// the host is killed.
    ProcessGroup,
}

/// A server whose start is not confirmed yet.
pub(crate) enum Spawned {
    Running(LaunchedServer),
    Guarded(guarded::Spawned),
}

impl Spawned {
    /// Waits until the program runs. Dropped before that, it is killed.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self {
            Self::Running(launched) => Ok(launched),
            Self::Guarded(spawned) => spawned.started().await,
        }
    }
}

/// What a launch at this level promises, on this machine.
pub(crate) fn containment(isolation: Isolation) -> Containment {
    match isolation {
        Isolation::ProcessGroup => group::containment(),
        Isolation::Guardian => match guarded::unavailable() {
            None => guarded::containment(),
            Some(why) => group::containment().fell_back(format!("no guardian: {why}")),
        },
        Isolation::PidNamespace => guarded::namespace_containment().unwrap_or_else(|why| {
            let next = containment(Isolation::Guardian);
            let besides = next.fallback.clone().unwrap_or_default();
            let separator = if besides.is_empty() { "" } else { "; " };
            next.fell_back(format!("no PID namespace: {why}{separator}{besides}"))
        }),
    }
}

/// Starts a server at this level, or at the next lower one that there is.
pub(crate) fn spawn(isolation: Isolation, command: Command) -> Result<Spawned, LaunchErrorKind> {
    if isolation == Isolation::ProcessGroup || guarded::unavailable().is_some() {
        return group::spawn(&command).map(Spawned::Running);
    }
    let in_namespace =
        isolation == Isolation::PidNamespace && guarded::namespace_containment().is_ok();
    guarded::spawn(command, in_namespace).map(Spawned::Guarded)
}
