//! The start of a tree by `posix_spawn`, from a complete description: its record, its cgroup, and
//! its guardian, which starts the program.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{ExitStatus, LaunchErrorKind};

use super::guarded::Guarded;
use super::strays;
use crate::cgroup::{Doors, Leaf};
use crate::command::{Command, limit, short_of, undone, working_directory};
use crate::ending::State;
use crate::identity::{self, Cookie};
use crate::orphans::{self, Entry};
use crate::plan::Plan;
use crate::program::protocol::Stage;
use crate::program::{self, GuardianHandle, Record, SpawnGuardianError, SpawnRequest};
use crate::{hardened, sys};

/// The time that a failed launch waits for the end of what it had started.
pub(crate) const UNDO_LIMIT: Duration = Duration::from_secs(5);

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
/// containment of this tree then states that.
fn leaf(plan: &Plan, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = plan.cgroups.as_ref().map_err(ToString::to_string)?;
    Leaf::create(parent, server).map_err(|error| {
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
    let doors = leaf.map(Leaf::open).transpose();
    let prepared = doors
        .map_err(|error| short_of(error, "its new cgroup could not be opened"))
        .and_then(|doors| Prepared::new(command, leaf.zip(doors)))
        .map_err(|error| (error, false))?;
    let rules = hardened::rules(plan.hardened, plan.writable.as_deref());
    let rules = rules.map_err(|error| (not_restricted(error), false))?;
    // The probe has succeeded, so a fallback now would be a silent one.
    program::spawn(SpawnRequest {
        grace: plan.grace,
        pid_namespace: plan.pid_namespace,
        rules: rules.as_ref().map(AsFd::as_fd),
        ..prepared.request(streams)
    })
    .map_err(|error| {
        let may_live = error.may_have_left_one();
        (no_guardian(error), may_live)
    })
}

/// The parts of a request that follow from a command and its cgroup.
#[derive(Debug)]
pub(crate) struct Prepared {
    program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    cwd: Option<CString>,
    cgroup: Option<CString>,
    pub(crate) doors: Option<Doors>,
}

impl Prepared {
    pub(crate) fn new(
        command: &Command,
        cgroup: Option<(&Leaf, Doors)>,
    ) -> Result<Self, LaunchErrorKind> {
        let (leaf, doors) = cgroup.unzip();
        let cwd = command.cwd.as_deref().map(|dir| c_string(dir.as_os_str()));
        let argv = std::iter::once(&command.arg0).chain(&command.args);
        Ok(Self {
            program: c_string(command.program.as_os_str())?,
            argv: argv.map(|word| c_string(word)).collect::<Result<_, _>>()?,
            env: env(command)?,
            cwd: cwd.transpose()?,
            cgroup: leaf.map(|leaf| c_string(leaf.name())).transpose()?,
            doors,
        })
    }

    /// Returns a request without a grace, with these standard streams.
    pub(crate) fn request<'a>(&'a self, streams: [BorrowedFd<'a>; 3]) -> SpawnRequest<'a> {
        let [stdin, stdout, stderr] = streams;
        SpawnRequest {
            program: &self.program,
            argv: &self.argv,
            env: &self.env,
            cwd: self.cwd.as_deref(),
            stdout,
            stderr,
            record: Record {
                cgroup: self.cgroup.as_deref(),
                ..Record::default()
            },
            ..SpawnRequest::nothing(stdin).in_cgroup(self.doors.as_ref())
        }
    }
}

pub(crate) fn not_restricted(error: io::Error) -> LaunchErrorKind {
    limit(error)
        .unwrap_or_else(|error| LaunchErrorKind::backend("the server cannot be restricted", error))
}

pub(crate) fn no_guardian(error: SpawnGuardianError) -> LaunchErrorKind {
    const WHAT: &str = "the server's guardian could not be started";
    let SpawnGuardianError::Failed { action, source } = error else {
        return LaunchErrorKind::backend(WHAT, error);
    };
    limit(source).unwrap_or_else(|source| {
        LaunchErrorKind::backend(WHAT, SpawnGuardianError::Failed { action, source })
    })
}

/// Returns the environment of a command, its mark last: that is what its guardian
/// [keeps](SpawnRequest::env).
fn env(command: &Command) -> Result<Vec<CString>, LaunchErrorKind> {
    let variable = |(name, value): (&OsString, &OsString)| {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        CString::new(variable.into_vec()).map_err(nul)
    };
    let is_mark = |(name, _): &(&OsString, &OsString)| **name == *identity::VARIABLE;
    let (marks, others): (Vec<_>, Vec<_>) = command.env.iter().partition(is_mark);
    others.into_iter().chain(marks).map(variable).collect()
}

pub(crate) fn explain(command: &Command, stage: Stage, error: io::Error) -> LaunchErrorKind {
    match stage {
        Stage::Chdir => working_directory(command.cwd.as_deref().unwrap_or(".".as_ref()), error),
        Stage::Exec => command.explain(error),
        _ => short_of(error, stage.failure()),
    }
}

pub(crate) fn c_string(text: &OsStr) -> Result<CString, LaunchErrorKind> {
    CString::new(text.as_bytes()).map_err(nul)
}

/// The specification is checked for NUL bytes; nothing else can contain any.
fn nul(error: std::ffi::NulError) -> LaunchErrorKind {
    LaunchErrorKind::backend("a NUL byte cannot be passed on", error)
}
