//! Starts a server as the leader of a process group.

use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use super::server::{self, GroupServer};
use crate::command::{Command, short_of, undone};
use crate::identity::Cookie;
use crate::sys::{self, Leader, Pid};
use crate::{orphans, pipes};

/// Starts `command` with its streams on pipes. Blocks while the system executes it, some tenths of
/// a millisecond.
///
/// Without `pre_exec`, which turns `posix_spawn` into `fork`. Steps that can fail without a server
/// come before the spawn.
pub(crate) fn spawn(
    command: &Command,
    containment: Containment,
) -> Result<LaunchedServer, LaunchErrorKind> {
    sys::can_lead()
        .and_then(|()| server::start())
        .map_err(|error| short_of(error, "this system does not let a process be watched"))?;
    let (ours, [stdin, stdout, stderr]) = pipes::open()?;
    let mut process = std::process::Command::new(&command.program);
    process
        .arg0(&command.arg0)
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    if let Some(dir) = &command.cwd {
        process.current_dir(dir);
    }
    if let Some(server) = &command.identity {
        orphans::register_uncontained(server)
            .map_err(|error| short_of(error, orphans::UNRECORDED))?;
    }
    let child = process.spawn().map_err(|error| command.explain(error))?;
    drop(process);
    // std's handle would reap by number; from here on the leader reaps.
    let server = match take_over(&child, command.identity.clone(), containment) {
        Ok(server) => server,
        Err(error) => {
            let what = match end(child, command.identity.as_ref()) {
                true => "the new process could not be watched; its process group was ended again",
                false => "the new process could not be watched; what it had started may live",
            };
            return Err(undone(error, what));
        }
    };
    Ok(ours.launched(Arc::new(server)))
}

const UNDO_LIMIT: Duration = Duration::from_secs(1);

fn take_over(
    child: &Child,
    identity: Option<Cookie>,
    containment: Containment,
) -> io::Result<GroupServer> {
    let pid = Pid::new(child.id().into());
    let pid = pid.ok_or_else(|| io::Error::other("an impossible process id"))?;
    GroupServer::watch(Leader::new(pid)?, identity, containment)
}

/// Ends a child and its group, and returns whether it did. Blocks for at most [`UNDO_LIMIT`].
fn end(child: Child, server: Option<&Cookie>) -> bool {
    // Where another part of the host reaps, the number may be free by now.
    let killed = Pid::new(child.id().into()).is_none_or(|pid| {
        sys::kill_group_of_child(pid)
            || server.is_some_and(|server| orphans::end_group(pid, server, UNDO_LIMIT))
    });
    reap(child, UNDO_LIMIT);
    killed
}

/// Reaps a killed child: here, or on a thread if the kernel takes longer than `limit`.
fn reap(mut child: Child, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(Some(_)) | Err(_) => return,
        }
        if Instant::now() >= end {
            let pid = child.id();
            let waits = move || drop(child.wait());
            let thread = thread::Builder::new().name("mcp-reap".to_owned());
            if let Err(error) = thread.spawn(waits) {
                sys::shielded(|| tracing::warn!(pid, %error, "a process cannot be reaped"));
            }
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
