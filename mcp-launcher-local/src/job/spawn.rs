//! Starts a server inside of a job.

use std::sync::Arc;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};
use mcp_tree::command_line;

use super::pipes;
use super::server::JobServer;
use crate::command::{Command, short_of};
use crate::sys::Job;

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
