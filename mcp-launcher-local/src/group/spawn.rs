//! Starts a server as the leader of a process group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;

use mcp_lifecycle_core::LaunchedServer;
use mcp_lifecycle_core::error::LaunchErrorKind;

use super::server::GroupServer;
use crate::command::Command;
use crate::orphans;
use crate::pipes;
use crate::sys::{Leader, Pid};

/// Starts `command` with its streams on pipes. Blocks for as long as the system
/// needs to execute it, some tenths of a millisecond.
///
/// No `pre_exec`: it would turn `posix_spawn` into `fork`, whose cost grows
/// with the host's heap.
pub(crate) fn spawn(command: &Command) -> Result<LaunchedServer, LaunchErrorKind> {
    let mut process = std::process::Command::new(&command.program);
    process
        .arg0(&command.arg0)
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(dir) = &command.cwd {
        process.current_dir(dir);
    }
    if let Some(server) = &command.identity {
        orphans::register_uncontained(server);
    }
    let child = process.spawn().map_err(|error| command.explain(error))?;
    take_over(child)
        .map_err(|error| LaunchErrorKind::backend("the new process could not be taken over", error))
}

/// From here to the end of the function the child must not get lost.
fn take_over(child: Child) -> io::Result<LaunchedServer> {
    let mut child = EndUnlessTaken(Some(child));
    let Some(process) = child.0.as_mut() else {
        unreachable!("just put there")
    };
    let pid = Pid::new(process.id().into())
        .ok_or_else(|| io::Error::other("the system gave out an impossible pid"))?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (
        process.stdin.take(),
        process.stdout.take(),
        process.stderr.take(),
    ) else {
        unreachable!("all three are piped")
    };
    let stdin = pipes::writer(stdin.into())?;
    let stdout = pipes::reader(stdout.into())?;
    let stderr = pipes::reader(stderr.into())?;
    let server = GroupServer::watch(Leader::new(pid)?)?;
    // std's handle would reap by number; from here on the pidfd does.
    child.0 = None;
    Ok(LaunchedServer::new(
        stdin,
        stdout,
        Some(Box::new(stderr)),
        Arc::new(server),
    ))
}

/// The child of a launch that failed half-way.
struct EndUnlessTaken(Option<Child>);

impl Drop for EndUnlessTaken {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It is our child and not reaped: its number is its own.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
