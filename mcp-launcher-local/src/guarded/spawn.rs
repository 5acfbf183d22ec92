//! Starts a server behind a guardian.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::LaunchedServer;
use mcp_lifecycle_core::error::LaunchErrorKind;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::probe;
use super::server::{GuardedServer, Server};
use crate::cgroup::{self, Leaf};
use crate::command::{Command, working_directory};
use crate::guard::protocol::Stage;
use crate::guard::{SpawnGuardianError, SpawnRequest};
use crate::identity::Cookie;
use crate::{guard, orphans, pipes};

/// A started guardian whose word on the server is still out.
pub(crate) struct Spawned {
    launched: LaunchedServer,
    server: Arc<Server>,
    command: Command,
}

/// Starts a guardian, which starts `command`. Blocks for one `posix_spawn`.
pub(crate) fn spawn(command: Command, pid_namespace: bool) -> Result<Spawned, LaunchErrorKind> {
    let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|errno| command.explain(errno.into()));
    let (their_stdin, stdin) = pipe()?;
    let (stdout, their_stdout) = pipe()?;
    let (stderr, their_stderr) = pipe()?;
    let parent = probe::possible().and_then(|possible| possible.cgroups);
    // Written down first, so that there is no instant at which this host could
    // die and leave something that nobody knows of.
    let server = command.identity.as_ref();
    let entry = server.and_then(|server| orphans::register(server, parent.is_ok()));
    let leaf = place(parent, server);
    let theirs = [&their_stdin, &their_stdout, &their_stderr];
    let guardian = match start(&command, theirs, leaf.as_ref().ok(), pid_namespace) {
        Ok(guardian) => guardian,
        Err(error) => {
            drop(leaf);
            if let Some(entry) = entry {
                entry.end();
            }
            return Err(error);
        }
    };
    drop((their_stdin, their_stdout, their_stderr));
    // From here on dropping the guardian's handle ends the server.
    let take_over = || -> io::Result<(LaunchedServer, Arc<Server>)> {
        let server = Server::watch(guardian, leaf, entry, pid_namespace)?;
        let stdin = pipes::writer(stdin)?;
        let stdout = pipes::reader(stdout)?;
        let stderr = pipes::reader(stderr)?;
        let terminator = Arc::new(GuardedServer::new(Arc::clone(&server)));
        let launched = LaunchedServer::new(stdin, stdout, Some(Box::new(stderr)), terminator);
        Ok((launched, server))
    };
    let (launched, server) = take_over().map_err(|error| {
        LaunchErrorKind::backend("the new process could not be taken over", error)
    })?;
    Ok(Spawned {
        launched,
        server,
        command,
    })
}

impl Spawned {
    /// Waits until the server's program runs.
    ///
    /// Dropped before that, everything is killed.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self.server.started().await {
            Some(Ok(_)) => Ok(self.launched),
            Some(Err((stage, errno))) => Err(explain(
                &self.command,
                stage,
                io::Error::from_raw_os_error(errno),
            )),
            None => Err(LaunchErrorKind::backend(
                "the guardian ended before the server was started",
                "it was killed",
            )),
        }
    }
}

/// A fresh cgroup for the server, or why it has none.
///
/// What the probe has found can have changed since: a limit on the number of
/// cgroups, another cgroup for the host. Then the server does without, and says
/// so.
fn place(parent: Result<&Path, &str>, server: Option<&Cookie>) -> Result<Leaf, String> {
    let parent = parent?;
    let server = server.ok_or("this process cannot be identified")?;
    Leaf::create(parent, &cgroup::name(server)).map_err(|error| {
        tracing::warn!(%error, "a server starts without a cgroup of its own");
        format!("it could not be made: {error}")
    })
}

fn start(
    command: &Command,
    [stdin, stdout, stderr]: [&OwnedFd; 3],
    leaf: Option<&Leaf>,
    pid_namespace: bool,
) -> Result<guard::GuardianHandle, LaunchErrorKind> {
    let program = c_string(command.program.as_os_str())?;
    let cwd = command
        .cwd
        .as_deref()
        .map(|dir| c_string(dir.as_os_str()))
        .transpose()?;
    let argv = std::iter::once(command.arg0.as_os_str())
        .chain(command.args.iter().map(AsRef::as_ref))
        .map(c_string)
        .collect::<Result<Vec<_>, _>>()?;
    let env = command
        .env
        .iter()
        .map(|(name, value)| {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            CString::new(variable.into_vec()).map_err(nul)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let doors = leaf
        .map(Leaf::open)
        .transpose()
        .map_err(|error| LaunchErrorKind::backend("its new cgroup could not be opened", error))?;
    let request = SpawnRequest {
        program: &program,
        argv: &argv,
        env: &env,
        cwd: cwd.as_deref(),
        stdin: stdin.as_fd(),
        stdout: stdout.as_fd(),
        stderr: stderr.as_fd(),
        cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
        cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
        pid_namespace,
        straggler_grace: STRAGGLER_GRACE,
    };
    guard::spawn(request).map_err(|error| match error {
        SpawnGuardianError::Failed { source, .. } => command.explain(source),
        // The probe has said otherwise; a fallback now would be a silent one.
        other => LaunchErrorKind::backend("the guardian could not be started", other),
    })
}

/// How long stragglers may live when nobody ends the server in order. Longer
/// than the default graces, so that the ladder is the one to act.
const STRAGGLER_GRACE: Duration = Duration::from_secs(10);

fn explain(command: &Command, stage: Stage, error: io::Error) -> LaunchErrorKind {
    match stage {
        Stage::Chdir => working_directory(command.cwd.as_deref().unwrap_or(".".as_ref()), error),
        Stage::Exec | Stage::Fork => command.explain(error),
        Stage::Setup => LaunchErrorKind::backend("the guardian could not set itself up", error),
        Stage::Namespace => LaunchErrorKind::backend("the server's PID namespace", error),
        Stage::Cgroup => LaunchErrorKind::backend("the server could not join its cgroup", error),
    }
}

fn c_string(text: &OsStr) -> Result<CString, LaunchErrorKind> {
    CString::new(text.as_bytes()).map_err(nul)
}

/// The specification is checked for NUL bytes; the host's environment and the
/// current directory cannot have any.
fn nul(error: std::ffi::NulError) -> LaunchErrorKind {
    LaunchErrorKind::backend("a NUL byte cannot be passed on", error)
}
