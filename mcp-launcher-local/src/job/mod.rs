//! Containment by job object: Windows.
//!
//! ```text
//!            ┌──────── leader exits, others live ────────▶ Leaderless ─┐
//!  Running ──┤                                                         ├── job is empty ──▶ Gone
//!            └──────── leader exits, no other lives ───────────────────┘
//! ```
//!
//! The kernel ends all processes of a job on one call, and when its last handle is closed, which
//! only the host holds. So no search is needed afterwards. See `docs/containment.md`.

mod pipes;
mod server;

use std::sync::Arc;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer, Reach};
use mcp_tree::command_line;

use self::server::JobServer;
use crate::command::{Command, short_of};
use crate::sys::Job;

pub(crate) fn containment() -> Containment {
    Containment::new("job object", Reach::Container)
        .host_death(Reach::Container)
        .atomic_placement()
}

/// Starts `command` with its streams on pipes. Each failure drops the job, which ends the processes
/// inside.
pub(crate) fn spawn(
    command: &Command,
    containment: Containment,
) -> Result<LaunchedServer, LaunchErrorKind> {
    let job = Job::new(None).map_err(|error| short_of(error, "a job object was refused"))?;
    let (ours, streams) = pipes::open()?;
    let start = command_line::start(command, streams)?;
    let server =
        JobServer::start(start, job, containment).map_err(|error| command.explain(error))?;
    Ok(LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        Arc::new(server),
    ))
}
