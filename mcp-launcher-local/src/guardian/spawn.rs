//! Starts a server behind a guardian.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use mcp_lifecycle_core::launch::{Containment, ExitStatus, LaunchErrorKind, LaunchedServer};

use super::server::{GuardedServer, Server};
use super::{Plan, strays};
use crate::cgroup::Leaf;
use crate::command::{Command, short_of, undone};
use crate::identity::Cookie;
use crate::orphans::Entry;
use crate::program::{self, GuardianHandle, SpawnRequest};
use crate::{orphans, pipes, sys};
use mcp_tree::launch::{Prepared, UNDO_LIMIT, explain, new_leaf, no_guardian};

pub(crate) struct Spawned {
    launched: LaunchedServer,
    server: Arc<Server>,
    command: Command,
}

/// Starts a guardian, which starts `command`. Blocks for one `posix_spawn`, before which all steps
/// come that can fail without a server.
pub(crate) fn spawn(
    command: Command,
    plan: Plan,
    containment: Containment,
) -> Result<Spawned, LaunchErrorKind> {
    let (ours, theirs) = pipes::open()?;
    let place = Place::prepare(command.identity.clone(), plan)?;
    let guardian = match start(&command, &theirs, place.leaf.as_ref().ok(), &place.plan) {
        Ok(guardian) => guardian,
        Err((failed, may_live)) => {
            if !may_live {
                place.vacate();
            }
            return Err(failed);
        }
    };
    drop(theirs);
    let server = Server::new(guardian, place, containment);
    // Its drop ends the server.
    let launched = LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        Arc::new(GuardedServer::new(Arc::clone(&server))),
    );
    if let Err(error) = server.watch() {
        let guardian = server.guardian.pid();
        let what = match server.end_and_wait(UNDO_LIMIT) {
            true => {
                "the new server could not be watched; it was ended again, and nothing of it is left"
                    .to_owned()
            }
            false => format!(
                "the new server could not be watched; its guardian (process {guardian}) was told to \
                 end it, and had not done so after {UNDO_LIMIT:?}"
            ),
        };
        if server.ending.is_proven() || !server.is_guardian_over() {
            return Err(undone(error, &what));
        }
        // The guardian was killed: the owner will learn which processes may be left.
        sys::shielded(|| tracing::warn!(guardian, %error, "a new server could not be watched"));
    }
    Ok(Spawned {
        launched,
        server,
        command,
    })
}

impl Spawned {
    /// Waits until the server's program runs, or has ended. Kills everything if dropped before
    /// that.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.server.started().await {
            Some(Ok(_)) => Ok(self.launched),
            Some(Err((stage, errno))) => {
                self.server.ending.over().await;
                let error = io::Error::from_raw_os_error(errno);
                Err(explain(&self.command, stage, error))
            }
            None if self.server.ending.is_proven() => Err(LaunchErrorKind::backend(
                "the server's guardian ended before it could say that the server runs",
                format!(
                    "it {}; nothing of the server is left, so another launch is safe",
                    self.server.guardian_end()
                ),
            )),
            // Some of its processes may live: the owner ends them, and learns which.
            None => {
                self.server.ending.publish(Some(ExitStatus::Unknown), None);
                Ok(self.launched)
            }
        }
    }
}

/// The record and the cgroup of a server that is about to start.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) since: u64,
    pub(super) identity: Option<Cookie>,
    pub(super) entry: Option<Entry>,
    pub(super) leaf: Result<Leaf, String>,
    pub(super) plan: Plan,
}

impl Place {
    pub(super) fn prepare(identity: Option<Cookie>, plan: Plan) -> Result<Self, LaunchErrorKind> {
        sys::watch::start()
            .and_then(|()| strays::start())
            .map_err(|error| {
                short_of(error, "the threads that watch servers could not be started")
            })?;
        let since = sys::ticks_since_boot();
        // The ledger first: whenever the host dies, it leaves nothing unrecorded.
        let mut entry = match &identity {
            Some(server) => orphans::register(server, plan.cgroups.is_ok())
                .map_err(|error| short_of(error, orphans::UNRECORDED))?,
            None => None,
        };
        let leaf = leaf(&plan, identity.as_ref());
        if let (Err(_), Some(entry)) = (&leaf, &mut entry) {
            entry.without_cgroup();
        }
        Ok(Self {
            since,
            identity,
            entry,
            leaf,
            plan,
        })
    }

    /// Ends the record: nothing was started, or nothing is left.
    pub(super) fn vacate(self) {
        if let Some(entry) = self.entry {
            entry.end();
        }
    }
}

/// Returns a fresh cgroup, or why there is none. The machine may have changed since the probe; the
/// containment of this server then states that.
fn leaf(plan: &Plan, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = plan.cgroups.as_ref().map_err(ToString::to_string)?;
    new_leaf(parent, server).map_err(|error| {
        sys::shielded(|| tracing::warn!(%error, "a server starts without a cgroup of its own"));
        format!("it could not be made: {error}")
    })
}

/// Starts the guardian. The error has whether one may live that cannot be held.
fn start(
    command: &Command,
    streams: &pipes::Theirs,
    leaf: Option<&Leaf>,
    plan: &Plan,
) -> Result<GuardianHandle, (LaunchErrorKind, bool)> {
    let prepared = Prepared::new(command, leaf).map_err(|error| (error, false))?;
    let streams = [&streams.stdin, &streams.stdout, &streams.stderr];
    // The probe has succeeded, so a fallback now would be a silent one.
    program::spawn(SpawnRequest {
        grace: plan.grace,
        pid_namespace: plan.pid_namespace,
        ..prepared.request(streams.map(OwnedFd::as_fd))
    })
    .map_err(|error| {
        let may_live = error.may_have_left_one();
        (no_guardian(error), may_live)
    })
}
