//! Starts a server as the leader of a process group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

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
    let (ours, theirs) = pipes::open()?;
    let mut process = std::process::Command::new(&command.program);
    process
        .arg0(&command.arg0)
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .stdin(theirs.stdin)
        .stdout(theirs.stdout)
        .stderr(theirs.stderr)
        .process_group(0);
    if let Some(dir) = &command.cwd {
        process.current_dir(dir);
    }
    if let Some(server) = &command.identity {
        orphans::register_uncontained(server)
            .map_err(|error| short_of(error, orphans::UNRECORDED))?;
    }
    let mut child = EndUnlessOwned {
        child: Some(process.spawn().map_err(|error| command.explain(error))?),
        identity: command.identity.clone(),
    };
    drop(process);
    let server = child.take_over(containment).map_err(|error| {
        let what = match child.end() {
            true => "the new process could not be watched; its process group was ended again",
            false => "the new process could not be watched; what it had started may live",
        };
        undone(error, what)
    })?;
    Ok(LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        Arc::new(server),
    ))
}

const UNDO_LIMIT: Duration = Duration::from_secs(1);

/// A child that is ended on drop, unless a terminator takes it.
struct EndUnlessOwned {
    child: Option<Child>,
    identity: Option<Cookie>,
}

impl EndUnlessOwned {
    fn take_over(&mut self, containment: Containment) -> io::Result<GroupServer> {
        let pid = self
            .pid()
            .ok_or_else(|| io::Error::other("an impossible process id"))?;
        let leader = Leader::new(pid)?;
        let server = GroupServer::watch(leader, self.identity.clone(), containment)?;
        // std's handle would reap by number; from here on the leader reaps.
        self.child = None;
        Ok(server)
    }

    fn pid(&self) -> Option<Pid> {
        self.child
            .as_ref()
            .and_then(|child| Pid::new(child.id().into()))
    }
}

impl EndUnlessOwned {
    /// Ends the child and its group, and returns whether it did. Blocks for at most [`UNDO_LIMIT`].
    fn end(&mut self) -> bool {
        let pid = self.pid();
        let (Some(pid), Some(child)) = (pid, self.child.take()) else {
            return true;
        };
        // Where another part of the host reaps, the number may be free by now.
        let server = self.identity.as_ref();
        let killed = sys::kill_group_of_child(pid)
            || server.is_some_and(|server| orphans::end_group(pid, server, UNDO_LIMIT));
        reap(child, UNDO_LIMIT);
        killed
    }
}

impl Drop for EndUnlessOwned {
    fn drop(&mut self) {
        self.end();
    }
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
