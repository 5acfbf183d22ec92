//! A process that stands between a host and its server, and copies nothing.
//!
//! ```text
//! Wrapper ── what to start, and how it is held
//! attempt ── cgroup, ledger, guardian, and the exec of the shim
//! ```

mod attempt;

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchErrorKind;
use nix::sys::signal::SigSet;

use crate::command::Command;
use crate::identity::{self, Cookie};
use crate::resolve::resolve;
use crate::sys;

/// A server that is to be started with this process's own standard streams.
///
/// [`exec`](Self::exec) starts it under a guardian and *becomes* its shim: the same
/// process, executing a small program that watches the server for whoever started this
/// one. Nothing is copied between host and server. How a shim behaves is in
/// `docs/contain.md`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wrapper {
    /// The program: a path, or a name that is looked up in this process's `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What people call the server; nothing if they do not. Shown by `ps`, and used for nothing else.
    pub name: Option<OsString>,
    /// The time that the server has to end by itself: after the end of its input, after
    /// SIGTERM, and when nobody watches any more because the shim was killed. Counted in
    /// milliseconds. 2 s by default.
    pub grace: Duration,
    /// What has to hold the server. [`Require::Nothing`] by default.
    pub require: Require,
    /// Whether the server's environment says whose it is (`MCP_LIFECYCLE_ID`), by which
    /// it is found when everything that held it was killed. `true` by default.
    pub mark: bool,
}

/// The containment that a wrapped server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Require {
    /// The best that this machine has.
    #[default]
    Nothing,
    /// A guardian.
    Guardian,
    /// A guardian and a cgroup.
    Cgroup,
    /// A guardian and a PID namespace of its own, which it does not get otherwise.
    PidNamespace,
}

/// No server runs as it should, and this process is what it was.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct WrapError {
    kind: LaunchErrorKind,
    is_unavailable: bool,
    may_live: bool,
}

impl WrapError {
    /// The kind of failure.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }

    /// Returns whether something of the server may live all the same: its guardian was
    /// killed, or could not be held. Its record stays, by which a search for orphans finds it.
    pub fn may_live(&self) -> bool {
        self.may_live
    }

    /// Returns whether this machine cannot hold any server: the program could still be
    /// executed by itself.
    pub fn is_unavailable(&self) -> bool {
        self.is_unavailable
    }
}

impl From<LaunchErrorKind> for WrapError {
    fn from(kind: LaunchErrorKind) -> Self {
        Self {
            kind,
            is_unavailable: false,
            may_live: false,
        }
    }
}

impl Wrapper {
    /// A program with its arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().collect(),
            name: None,
            grace: Duration::from_secs(2),
            require: Require::Nothing,
            mark: true,
        }
    }

    /// Starts the server and becomes its shim. Returns only if that fails.
    ///
    /// To be called by a process with one thread and no children, that has nothing left
    /// to do: as with any exec, no destructor is run. Descriptors other than the
    /// standard streams are closed; signals that come meanwhile are the shim's. Blocks
    /// until the server's program runs.
    pub fn exec(&self) -> WrapError {
        // What the host has leaked is neither the server's nor the shim's.
        sys::close_on_exec_from(3);
        let mask = SigSet::thread_get_mask();
        // None may be lost between here and the shim.
        let _ = SigSet::all().thread_block();
        let failed = match self.try_exec() {
            Ok(never) => match never {},
            Err(failed) => failed,
        };
        let _ = mask.and_then(|mask| mask.thread_set_mask());
        failed
    }

    fn try_exec(&self) -> Result<Infallible, WrapError> {
        let host = sys::hold_parent();
        let identity = match identity::new_server() {
            Err(error) if sys::is_shortage(&error) => {
                let what = "the server could not be given an identity";
                return Err(crate::command::short_of(error, what).into());
            }
            identity => identity.ok(),
        };
        let command = self.command(identity.as_ref())?;
        attempt::exec(self, &command, identity.as_ref(), host.as_ref())
    }

    /// The program found, and the environment as it is but for the mark.
    fn command(&self, identity: Option<&Cookie>) -> Result<Command, LaunchErrorKind> {
        let path = env::var_os("PATH");
        // A directory that was removed has no name; then nothing relative is found.
        let directory = env::current_dir();
        let directory = directory.as_deref().unwrap_or(Path::new("."));
        let program = resolve(&self.program, path.as_deref(), directory)?;
        let mut command = Command {
            program,
            arg0: self.program.clone(),
            args: self.args.clone(),
            env: env::vars_os().collect(),
            identity: identity.filter(|_| self.mark).cloned(),
            cwd: None,
        };
        // The host's own, if it is somebody's server, is not the server's.
        command.env.remove(OsStr::new(identity::VARIABLE));
        if let Some(mark) = &command.identity {
            let mark = mark.to_string().into();
            command.env.insert(identity::VARIABLE.into(), mark);
        }
        Ok(command)
    }
}
