//! Starts a server behind a guardian.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, ExitStatus, LaunchErrorKind, LaunchedServer};

use super::server::{GuardedServer, Server};
use super::{Plan, Why, strays};
use crate::cgroup::{self, Leaf};
use crate::command::{Command, limit, short_of, undone, working_directory};
use crate::identity::Cookie;
use crate::program::protocol::Stage;
use crate::program::{self, SpawnGuardianError, SpawnRequest};
use crate::{identity, orphans, pipes, sys};

/// The time that a failed launch waits for the end of what it had started. It takes milliseconds;
/// the limit is for processes that cannot be killed.
const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// A started guardian that has not yet reported on the server.
pub(crate) struct Spawned {
    launched: LaunchedServer,
    server: Arc<Server>,
    command: Command,
}

/// Starts a guardian, which starts `command`. Blocks for one `posix_spawn`.
///
/// Steps that can fail or panic without a server come before it; from the guardian's start on, the
/// server has an owner at every instant.
pub(crate) fn spawn(
    command: Command,
    plan: Plan,
    containment: Containment,
) -> Result<Spawned, LaunchErrorKind> {
    sys::watch::start()
        .and_then(|()| strays::start())
        .map_err(|error| short_of(error, "the threads that watch servers could not be started"))?;
    let Plan {
        pid_namespace,
        grace,
        ..
    } = plan;
    let (ours, theirs) = pipes::open()?;
    let since = sys::ticks_since_boot();
    let record = Record::make(&plan, command.identity.as_ref())
        .map_err(|error| short_of(error, orphans::UNRECORDED))?;
    let leaf = record.leaf.as_ref().ok();
    let guardian = start(&command, &theirs, leaf, pid_namespace, grace)?;
    drop(theirs);
    let containment = match &record.leaf {
        Err(why) if plan.cgroups.is_ok() => Plan {
            cgroups: Err(Why::from(why.as_str())),
            ..plan
        }
        .containment(),
        _ => containment,
    };
    let (leaf, entry) = record.into_parts();
    let identity = command.identity.clone();
    let server = Server::new(
        guardian,
        since,
        leaf,
        entry,
        identity,
        pid_namespace,
        containment,
    );
    let mut owned = EndUnlessOwned(Some(Arc::clone(&server)));
    if let Err(error) = server.watch() {
        // Ended here, so that its drop does not do it again.
        owned.0 = None;
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
    let terminator = Arc::new(GuardedServer::new(Arc::clone(&server)));
    let launched = LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        terminator,
    );
    // From here on the terminator's drop ends the server.
    owned.0 = None;
    Ok(Spawned {
        launched,
        server,
        command,
    })
}

/// Ends a server that has no owner yet when dropped.
struct EndUnlessOwned(Option<Arc<Server>>);

impl Drop for EndUnlessOwned {
    /// Ends the server after a panic.
    fn drop(&mut self) {
        if let Some(server) = self.0.take() {
            server.end_and_wait(UNDO_LIMIT);
        }
    }
}

/// The record of a server's place: its line in the ledger, and its cgroup.
#[derive(Debug)]
struct Record {
    leaf: Result<Leaf, String>,
    entry: Option<orphans::Entry>,
}

impl Record {
    /// Writes the ledger first, so that the host cannot die at an instant at which it leaves
    /// something unrecorded.
    fn make(plan: &Plan, server: Option<&Cookie>) -> io::Result<Self> {
        let entry = match server {
            Some(server) => orphans::register(server, plan.cgroups.is_ok())?,
            None => None,
        };
        let mut record = Self {
            leaf: Err(String::new()),
            entry,
        };
        record.leaf = place(plan, server);
        if let (Err(_), Some(entry)) = (&record.leaf, &mut record.entry) {
            entry.without_cgroup();
        }
        Ok(record)
    }

    /// Hands both to the server, which removes them when it ends.
    fn into_parts(mut self) -> (Result<Leaf, String>, Option<orphans::Entry>) {
        let leaf = std::mem::replace(&mut self.leaf, Err(String::new()));
        (leaf, self.entry.take())
    }
}

impl Drop for Record {
    /// Removes the entry, because no server was started. The empty leaf removes itself.
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.end();
        }
    }
}

impl Spawned {
    /// Waits until the server's program runs, or is known to have ended.
    ///
    /// Kills everything if dropped before that.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.server.started().await {
            Some(Ok(_)) => Ok(self.launched),
            Some(Err((stage, errno))) => {
                // Nothing is left of the server; the guardian is about to exit.
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
                self.server.ending.update(|known| {
                    known.exit = known.exit.or(Some(ExitStatus::Unknown));
                });
                Ok(self.launched)
            }
        }
    }
}

/// Returns a fresh cgroup for the server, or why it has none.
///
/// The machine may have changed since the probe: a limit on the number of cgroups was reached, or
/// the host was moved to another cgroup. Then the server starts without one, and its containment
/// states that.
fn place(plan: &Plan, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = plan.cgroups.as_ref().map_err(ToString::to_string)?;
    let made = cgroup::new_name(server).and_then(|name| Leaf::create(parent, &name));
    made.map_err(|error| {
        sys::shielded(|| tracing::warn!(%error, "a server starts without a cgroup of its own"));
        format!("it could not be made: {error}")
    })
}

fn start(
    command: &Command,
    streams: &pipes::Theirs,
    leaf: Option<&Leaf>,
    pid_namespace: bool,
    grace: Duration,
) -> Result<program::GuardianHandle, LaunchErrorKind> {
    let program = c_string(command.program.as_os_str())?;
    let cwd = command
        .cwd
        .as_deref()
        .map(|dir| c_string(dir.as_os_str()))
        .transpose()?;
    let argv = argv(command)?;
    let env = env(command)?;
    let doors = leaf
        .map(Leaf::open)
        .transpose()
        .map_err(|error| short_of(error, "its new cgroup could not be opened"))?;
    let cgroup = leaf.map(|leaf| c_string(leaf.name())).transpose()?;
    let request = SpawnRequest {
        program: &program,
        argv: &argv,
        env: &env,
        cwd: cwd.as_deref(),
        stdin: streams.stdin.as_fd(),
        stdout: streams.stdout.as_fd(),
        stderr: streams.stderr.as_fd(),
        cgroup_leaf: doors.as_ref().map(|doors| doors.directory.as_fd()),
        cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
        cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
        grace,
        record: program::Record {
            cgroup: cgroup.as_deref(),
            ..program::Record::default()
        },
        pid_namespace,
        orphan: false,
        own_variable: false,
    };
    program::spawn(request).map_err(|error| match error {
        SpawnGuardianError::Failed { action, source } => limit(source).unwrap_or_else(|source| {
            let error = SpawnGuardianError::Failed { action, source };
            LaunchErrorKind::backend("the server's guardian could not be started", error)
        }),
        // The probe has succeeded; a fallback now would be a silent one.
        other => LaunchErrorKind::backend("the server's guardian could not be started", other),
    })
}

/// Returns the arguments of a command, beginning with `arg0`.
pub(crate) fn argv(command: &Command) -> Result<Vec<CString>, LaunchErrorKind> {
    std::iter::once(command.arg0.as_os_str())
        .chain(command.args.iter().map(AsRef::as_ref))
        .map(c_string)
        .collect()
}

/// Returns the environment of a command, its mark last: that is what its guardian
/// [keeps](SpawnRequest::env).
pub(crate) fn env(command: &Command) -> Result<Vec<CString>, LaunchErrorKind> {
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
        _ => short_of(error, stage_name(stage)),
    }
}

/// Describes a stage that failed, for errors.
pub(super) fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Setup => "the guardian could not set itself up",
        Stage::Fork => "the guardian could not create a process for the server",
        Stage::Cgroup => "the server could not join its cgroup",
        Stage::Chdir => "the working directory could not be entered",
        Stage::Exec => "the program could not be executed",
        Stage::Namespace => "the server's PID namespace could not be created",
        Stage::Subreaper => {
            "the guardian could not become a subreaper (prctl PR_SET_CHILD_SUBREAPER; a sandbox may refuse it)"
        }
        Stage::ChildExits => {
            "the guardian could not wait for exits (signalfd; a sandbox may refuse it)"
        }
        Stage::DeathSignal => {
            "the server could not be tied to its guardian (prctl PR_SET_PDEATHSIG; a sandbox may refuse it)"
        }
    }
}

pub(crate) fn c_string(text: &OsStr) -> Result<CString, LaunchErrorKind> {
    CString::new(text.as_bytes()).map_err(nul)
}

/// The specification is checked for NUL bytes; the host's environment and the current directory
/// cannot contain any.
fn nul(error: std::ffi::NulError) -> LaunchErrorKind {
    LaunchErrorKind::backend("a NUL byte cannot be passed on", error)
}
