//! Starts a server behind a guardian.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, ExitStatus, LaunchErrorKind, LaunchedServer};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::process::protocol::Stage;
use super::process::{self, SpawnGuardianError, SpawnRequest};
use super::server::{GuardedServer, Server};
use super::spares::{Spare, Spares};
use super::{Plan, Why, strays};
use crate::cgroup::{self, Leaf};
use crate::command::{Command, limit, short_of, undone, working_directory};
use crate::identity::Cookie;
use crate::{identity, orphans, pipes, sys};

/// How long a launch that failed half-way waits for the end of what it had
/// started. It takes milliseconds; the limit is for what cannot be killed.
const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// A started guardian whose word on the server is still out.
pub(crate) struct Spawned {
    launched: LaunchedServer,
    server: Arc<Server>,
    command: Command,
}

/// Starts a guardian, which starts `command`. Blocks for one `posix_spawn`.
///
/// Whatever can fail or panic without a server does so before there is one; from
/// the guardian's start on, somebody owns it at every instant.
pub(crate) fn spawn(
    mut command: Command,
    plan: Plan,
    containment: Containment,
    spares: Option<&Spares>,
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
    let warm = spares
        .filter(|_| !pid_namespace && command.identity.is_some())
        .and_then(|spares| spares.take(&plan))
        .and_then(|spare| order(&mut command, &theirs, grace, spare));
    let (record, guardian) = match warm {
        Some(warm) => warm,
        None => {
            let record = Record::make(&plan, command.identity.as_ref())
                .map_err(|error| short_of(error, orphans::UNRECORDED))?;
            let leaf = record.leaf.as_ref().ok();
            let guardian = start(&command, &theirs, leaf, pid_namespace, grace)?;
            (record, guardian)
        }
    };
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
        // Ended here, and not once more by its drop.
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
        // As where the guardian was killed: its owner is told who may be left.
        sys::shielded(|| tracing::warn!(guardian, %error, "a new server could not be watched"));
    }
    let terminator = Arc::new(GuardedServer::new(Arc::clone(&server)));
    let launched = LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        terminator,
    );
    // Its drop ends the server, from here on.
    owned.0 = None;
    Ok(Spawned {
        launched,
        server,
        command,
    })
}

/// A server that nobody owns yet.
struct EndUnlessOwned(Option<Arc<Server>>);

impl Drop for EndUnlessOwned {
    /// After a panic in between.
    fn drop(&mut self) {
        if let Some(server) = self.0.take() {
            server.end_and_wait(UNDO_LIMIT);
        }
    }
}

/// Has a spare guardian start `command`, as the server it was made for. `None` if it cannot: nothing is started then.
fn order(
    command: &mut Command,
    streams: &pipes::Theirs,
    grace: Duration,
    spare: Spare,
) -> Option<(Record, process::GuardianHandle)> {
    let before = command.carry(Some(spare.identity.clone()));
    // Somebody may have stopped it since it was looked at.
    spare.guardian.resume();
    let told = tell(command, streams, grace, &spare.guardian);
    match told {
        Ok(()) => Some((spare.record, spare.guardian)),
        Err(error) => {
            sys::shielded(|| tracing::debug!(%error, "a spare guardian starts nothing"));
            command.carry(before);
            None
        }
    }
}

fn tell(
    command: &Command,
    streams: &pipes::Theirs,
    grace: Duration,
    guardian: &process::GuardianHandle,
) -> io::Result<()> {
    let other = |error: LaunchErrorKind| io::Error::other(error);
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = open(".", flags, Mode::empty())?;
    let cwd = command.cwd.as_deref().map(|dir| c_string(dir.as_os_str()));
    guardian.order(&process::Order {
        program: &c_string(command.program.as_os_str()).map_err(other)?,
        argv: &argv(command).map_err(other)?,
        env: &env(command).map_err(other)?,
        cwd: cwd.transpose().map_err(other)?.as_deref(),
        directory: directory.as_fd(),
        stdin: streams.stdin.as_fd(),
        stdout: streams.stdout.as_fd(),
        stderr: streams.stderr.as_fd(),
        grace,
    })
}

/// What says where a server is: its line in the ledger, and its cgroup.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) leaf: Result<Leaf, String>,
    entry: Option<orphans::Entry>,
}

impl Record {
    /// Written down first, so that there is no instant at which this host could
    /// die and leave something that nobody knows of.
    pub(super) fn make(plan: &Plan, server: Option<&Cookie>) -> io::Result<Self> {
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

    /// For the server, which removes both when it ends.
    fn into_parts(mut self) -> (Result<Leaf, String>, Option<orphans::Entry>) {
        let leaf = std::mem::replace(&mut self.leaf, Err(String::new()));
        (leaf, self.entry.take())
    }
}

impl Drop for Record {
    /// No server was started. The leaf, which is empty, goes by itself.
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.end();
        }
    }
}

impl Spawned {
    /// Waits until the server's program runs, or is known to have ended.
    ///
    /// Dropped before that, everything is killed.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.server.started().await {
            Some(Ok(_)) => Ok(self.launched),
            Some(Err((stage, errno))) => {
                // Nothing is left of the server; the guardian is on its way out.
                self.server.ending.over().await;
                let error = io::Error::from_raw_os_error(errno);
                Err(explain(&self.command, stage, error))
            }
            None if self.server.ending.is_proven() => Err(LaunchErrorKind::backend(
                "the server's guardian ended before it could say that the server runs",
                "it was killed by somebody; nothing of the server is left, so another launch is \
                 safe",
            )),
            // Somebody of it may live: whoever owns it ends it, and is told who.
            None => {
                self.server.ending.update(|known| {
                    known.exit = known.exit.or(Some(ExitStatus::Unknown));
                });
                Ok(self.launched)
            }
        }
    }
}

/// A fresh cgroup for the server, or why it has none.
///
/// What the probe has found can have changed since: a limit on the number of
/// cgroups, another cgroup for the host. Then the server does without, and says
/// so.
fn place(plan: &Plan, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = plan.cgroups.as_ref().map_err(ToString::to_string)?;
    let server = server.ok_or("this process cannot be identified")?;
    Leaf::create(parent, &cgroup::name(server)).map_err(|error| {
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
) -> Result<process::GuardianHandle, LaunchErrorKind> {
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
        record: process::Record::default(),
        pid_namespace,
        orphan: false,
        spare: false,
        own_variable: false,
    };
    process::spawn(request).map_err(|error| match error {
        SpawnGuardianError::Failed { action, source } => limit(source).unwrap_or_else(|source| {
            let error = SpawnGuardianError::Failed { action, source };
            LaunchErrorKind::backend("the server's guardian could not be started", error)
        }),
        // The probe has said otherwise; a fallback now would be a silent one.
        other => LaunchErrorKind::backend("the server's guardian could not be started", other),
    })
}

/// The arguments of a command, the name it is called by first.
pub(crate) fn argv(command: &Command) -> Result<Vec<CString>, LaunchErrorKind> {
    std::iter::once(command.arg0.as_os_str())
        .chain(command.args.iter().map(AsRef::as_ref))
        .map(c_string)
        .collect()
}

/// The environment of a command, its mark last: that is what its guardian [keeps](SpawnRequest::env).
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

/// What a stage that failed means, for errors.
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

/// The specification is checked for NUL bytes; the host's environment and the
/// current directory cannot have any.
fn nul(error: std::ffi::NulError) -> LaunchErrorKind {
    LaunchErrorKind::backend("a NUL byte cannot be passed on", error)
}
