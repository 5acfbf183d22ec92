//! What containment there can be on this machine, found out by doing it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cgroup::{self, Leaf};
use crate::guard::protocol::{MESSAGE_MAX, Report, Stage};
use crate::guard::{self, GuardianHandle, Received, SpawnGuardianError, SpawnRequest};
use crate::{identity, orphans};

/// What this machine allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Possible {
    /// Below which directory each server gets a cgroup of its own, or why not.
    pub(super) cgroups: Result<&'static Path, &'static str>,
    /// Why no server gets a PID namespace of its own, if so.
    pub(super) namespaces: Result<(), &'static str>,
}

/// What there can be behind a guardian, or why there can be no guardian at all.
///
/// The first call starts one and waits for its end, about half a millisecond;
/// the answer holds for the life of the process. What may be better next time,
/// such as a limit that was reached, is not an answer, and is asked again.
pub(super) fn possible() -> Result<Possible, &'static str> {
    static KNOWN: Mutex<Option<Result<Possible, &'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = *known {
        return answer;
    }
    match try_one(None, false) {
        Ok(_) => {
            let cgroups = try_cgroup().map_err(|why| &*why.leak());
            *known = Some(Ok(Possible {
                cgroups,
                namespaces: try_namespace(),
            }));
        }
        Err(SpawnGuardianError::Unavailable(why) | SpawnGuardianError::Refused(why)) => {
            // Once per process: it lives as long as the answer does.
            *known = Some(Err(why.to_string().leak()));
        }
        Err(SpawnGuardianError::Failed { action, source }) => {
            tracing::debug!(action, %source, "the probe for a guardian failed");
        }
    }
    let unknown = Ok(Possible {
        cgroups: Err("not known yet"),
        namespaces: Err("not known yet"),
    });
    known.unwrap_or(unknown)
}

/// Has a child of a guardian join a cgroup, and removes it again.
fn try_cgroup() -> Result<&'static Path, String> {
    let parent = cgroup::parent()?;
    let server = identity::new_server().ok_or("this process cannot be identified")?;
    let entry = orphans::register(&server, true);
    let joined = join(parent, &cgroup::name(&server));
    if let Some(entry) = entry {
        entry.end();
    }
    joined.map(|()| parent)
}

/// Has a guardian make a PID namespace, which ends at once.
fn try_namespace() -> Result<(), &'static str> {
    match try_one(None, true) {
        Ok(Stage::Exec) => Ok(()),
        Ok(_) => Err("this system refuses to make one"),
        Err(_) => Err("it could not be tried"),
    }
}

fn join(parent: &Path, name: &str) -> Result<(), String> {
    let refused = |what: &str, error: io::Error| format!("{what}: {error}");
    let leaf = Leaf::create(parent, name)
        .map_err(|error| refused("none can be made below this process's own", error))?;
    match try_one(Some(&leaf), false) {
        Ok(Stage::Cgroup) => Err("it cannot be joined".to_owned()),
        Ok(_) => Ok(()),
        Err(SpawnGuardianError::Failed { action, source }) => Err(refused(action, source)),
        Err(other) => Err(other.to_string()),
    }
}

/// Starts a guardian for a server that cannot be executed, and sees it end.
/// Returns how far the server came.
fn try_one(leaf: Option<&Leaf>, pid_namespace: bool) -> Result<Stage, SpawnGuardianError> {
    let failed = |source| SpawnGuardianError::Failed {
        action: "the probe",
        source,
    };
    let null = File::open("/dev/null").map_err(failed)?;
    let doors = leaf.map(Leaf::open).transpose().map_err(failed)?;
    let guardian = guard::spawn(SpawnRequest {
        // A directory: nothing is ever executed.
        program: c"/",
        argv: &[],
        env: &[],
        cwd: None,
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: null.as_fd(),
        cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
        cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
        pid_namespace,
        straggler_grace: Duration::ZERO,
    })?;
    let mut exit = [PollFd::new(guardian.pidfd(), PollFlags::POLLIN)];
    // It ends by itself within a millisecond; the limit is for a machine that
    // is stuck, where the answer would be no use.
    let ended = poll(&mut exit, PollTimeout::from(5_000u16));
    let reaped = guardian.try_reap();
    match (ended, reaped) {
        (Ok(1), Ok(_)) => last_stage(&guardian).map_err(failed),
        (Ok(_), Err(error)) => Err(failed(error)),
        (Ok(_), Ok(_)) => Err(failed(io::ErrorKind::TimedOut.into())),
        (Err(errno), _) => Err(failed(errno.into())),
    }
}

/// What the server of a guardian that has exited failed at.
fn last_stage(guardian: &GuardianHandle) -> io::Result<Stage> {
    let mut buffer = [0; MESSAGE_MAX];
    match guardian.receive(&mut buffer)? {
        Received::Report(Report::ExecFailed { stage, .. }) => Ok(stage),
        _ => Err(io::Error::other("the guardian did not report")),
    }
}
