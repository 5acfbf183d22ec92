//! Starts a server inside of a job.

use std::io;
use std::os::windows::io::OwnedHandle;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use super::server::JobServer;
use super::{command_line, pipes};
use crate::command::{Command, short_of};
use crate::sys::{Job, Start, command_interpreter};

/// Starts `command` with its streams on pipes. Each failure drops the job, which ends the processes
/// inside.
pub(crate) fn spawn(
    command: &Command,
    containment: Containment,
) -> Result<LaunchedServer, LaunchErrorKind> {
    let job = Job::new(None).map_err(|error| short_of(error, "a job object was refused"))?;
    let (ours, streams) = pipes::open()?;
    let start = start(command, streams)?;
    let server =
        JobServer::start(start, job, containment).map_err(|error| command.explain(error))?;
    Ok(LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        Arc::new(server),
    ))
}

pub(crate) fn start(
    command: &Command,
    streams: [OwnedHandle; 3],
) -> Result<Start<'_>, LaunchErrorKind> {
    let invalid =
        |error: io::Error| LaunchErrorKind::backend("the command cannot be passed on", error);
    let (program, line) = if command_line::is_script(&command.program) {
        let interpreter = command_interpreter().map_err(invalid)?;
        let line = command_line::of_script(&command.program, &command.args);
        (interpreter, line.map_err(invalid)?)
    } else {
        let line = command_line::of_program(&command.arg0, &command.args);
        (command.program.clone(), line.map_err(invalid)?)
    };
    Ok(Start {
        program,
        command_line: line,
        environment: command_line::environment(&command.env).map_err(invalid)?,
        cwd: command.cwd.as_deref(),
        streams,
    })
}
