//! The start of a tree: by `posix_spawn` from a launcher's complete description, or by a command
//! of the standard library, which forks.

use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command as StdCommand;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{ExitStatus, LaunchErrorKind};

use super::guarded::{Guarded, Reap};
use super::{Options, Tree, strays};
use crate::cgroup::Leaf;
use crate::command::{Command, new_identity, short_of, undone};
use crate::ending::State;
use crate::identity::{self, Cookie};
use crate::launch::{Prepared, UNDO_LIMIT, explain, new_leaf, no_guardian};
use crate::orphans::{self, Entry};
use crate::plan::Plan;
use crate::program::{self, Attached, GuardianHandle, SpawnRequest};
use crate::sys;

/// The record and the cgroup of a tree that is about to start.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) since: u64,
    pub(super) identity: Option<Cookie>,
    pub(super) entry: Option<Entry>,
    pub(super) leaf: Result<Leaf, String>,
    pub(super) plan: Plan,
}

impl Place {
    fn prepare(identity: Option<Cookie>, plan: Plan) -> Result<Self, LaunchErrorKind> {
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
    fn vacate(self) {
        if let Some(entry) = self.entry {
            entry.end();
        }
    }
}

/// Returns a fresh cgroup, or why there is none. The machine may have changed since the probe; the
/// containment of this tree then states that.
fn leaf(plan: &Plan, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = plan.cgroups.as_ref().map_err(ToString::to_string)?;
    new_leaf(parent, server).map_err(|error| {
        crate::logged!(warn, %error, "a server starts without a cgroup of its own");
        format!("it could not be made: {error}")
    })
}

impl Guarded {
    /// Starts a guardian, which starts `command`. Blocks for one `posix_spawn`, before which all
    /// steps come that can fail without a tree.
    pub fn launch(
        command: &Command,
        streams: [BorrowedFd<'_>; 3],
        plan: Plan,
    ) -> Result<Arc<Self>, LaunchErrorKind> {
        let place = Place::prepare(command.identity.clone(), plan)?;
        let leaf = place.leaf.as_ref().ok();
        let guardian = match start(command, streams, leaf, &place.plan) {
            Ok(guardian) => guardian,
            Err((failed, may_live)) => {
                if !may_live {
                    place.vacate();
                }
                return Err(failed);
            }
        };
        let guarded = Self::new(guardian, place);
        if let Err(error) = guarded.watch() {
            let guardian = guarded.guardian.pid();
            let what = match guarded.end_and_wait(UNDO_LIMIT) {
                true => {
                    "the new server could not be watched; it was ended again, and nothing of it is left"
                        .to_owned()
                }
                false => format!(
                    "the new server could not be watched; its guardian (process {guardian}) was told to \
                     end it, and had not done so after {UNDO_LIMIT:?}"
                ),
            };
            if guarded.ending.is_proven() || !guarded.is_guardian_over() {
                return Err(undone(error, &what));
            }
            // The guardian was killed: the owner will learn which processes may be left.
            crate::logged!(warn, guardian, %error, "a new server could not be watched");
        }
        Ok(guarded)
    }

    /// Waits until the program of [`launch`](Self::launch) runs, or has ended. Cancel safe.
    pub async fn started(&self, command: &Command) -> Result<(), LaunchErrorKind> {
        let Self {
            started, ending, ..
        } = self;
        let started = ending.when(|known| match started.get() {
            None => known.over().map(|()| None),
            started => Some(started),
        });
        match started.await {
            Some(Ok(_)) => Ok(()),
            Some(Err((stage, errno))) => {
                ending.when(State::over).await;
                let error = io::Error::from_raw_os_error(*errno);
                Err(explain(command, *stage, error))
            }
            None if ending.is_proven() => Err(LaunchErrorKind::backend(
                "the server's guardian ended before it could say that the server runs",
                format!(
                    "it {}; nothing of the server is left, so another launch is safe",
                    self.guardian_end()
                ),
            )),
            // Some of its processes may live: the owner ends them, and learns which.
            None => {
                ending.publish(Some(ExitStatus::Unknown), None);
                Ok(())
            }
        }
    }
}

/// Starts the guardian. The error has whether one may live that cannot be held.
fn start(
    command: &Command,
    streams: [BorrowedFd<'_>; 3],
    leaf: Option<&Leaf>,
    plan: &Plan,
) -> Result<GuardianHandle, (LaunchErrorKind, bool)> {
    let prepared = Prepared::new(command, leaf).map_err(|error| (error, false))?;
    // The probe has succeeded, so a fallback now would be a silent one.
    program::spawn(SpawnRequest {
        grace: plan.grace,
        pid_namespace: plan.pid_namespace,
        ..prepared.request(streams)
    })
    .map_err(|error| {
        let may_live = error.may_have_left_one();
        (no_guardian(error), may_live)
    })
}

/// A guardian that starts with the next start of a command.
///
/// # Drop
///
/// Undoes a start that has failed, which takes five seconds at most.
#[derive(Debug)]
pub(crate) struct Attaching(Option<(Attached, Place, String)>);

impl Attaching {
    pub(crate) fn new(command: &mut StdCommand, options: &Options) -> io::Result<Self> {
        sys::own_servers()?;
        let plan = Plan::best(false, true).map_err(|why| {
            let why = format!("this machine has no guardian: {why}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let identity = new_identity().map_err(io::Error::other)?;
        let mark = identity
            .as_ref()
            .map_or_else(Default::default, |it| it.variable());
        command.env_remove(identity::KEEP);
        match &identity {
            Some(identity) => command.env(identity::VARIABLE, identity.to_string()),
            None => command.env_remove(identity::VARIABLE),
        };
        let name = command.get_program().to_string_lossy().into_owned();
        let place = Place::prepare(identity, plan).map_err(io::Error::other)?;
        let leaf = place.leaf.as_ref().ok();
        let attached = leaf.map(Leaf::open).transpose().and_then(|doors| {
            let cgroup = leaf.map(Leaf::name).zip(doors.as_ref());
            Attached::new(command, mark, cgroup, options.grace).map_err(io::Error::other)
        });
        match attached {
            Ok(attached) => Ok(Self(Some((attached, place, name)))),
            Err(error) => {
                place.vacate();
                Err(error)
            }
        }
    }

    /// Holds the guardian, which is this child, and returns when the program runs.
    pub(crate) fn hold(mut self, child: u32, reap: Reap) -> io::Result<Tree> {
        let (attached, place, name) = self.0.take().ok_or(io::ErrorKind::InvalidInput)?;
        let (guardian, pid) = match attached.hold(child, UNDO_LIMIT) {
            Ok(held) => held,
            Err((error, attached)) => {
                self.0 = Some((attached, place, name));
                // Before the owner of the child, which may kill the guardian when it is dropped.
                drop(self);
                return Err(error);
            }
        };
        let tree = Tree::of(Guarded::new(guardian, place));
        let guarded = &tree.guarded;
        *guarded.reap.lock() = Some(reap);
        let _ = guarded.program.set(name);
        guarded.note_start(pid);
        if let Err(error) = guarded.watch() {
            guarded.end_and_wait(UNDO_LIMIT);
            return Err(error);
        }
        Ok(tree)
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        if let Some((attached, place, _)) = self.0.take()
            && attached.undo(UNDO_LIMIT)
        {
            place.vacate();
        }
    }
}
