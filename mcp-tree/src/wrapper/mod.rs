//! A process between a host and its server that copies nothing.

#[cfg(target_os = "linux")]
mod attempt;
#[cfg(target_os = "linux")]
mod records;
mod run;
#[cfg(target_os = "linux")]
mod staying;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::Limits;
use crate::command::Command;
use crate::direct::{self, Start};
use crate::identity::Cookie;

/// The size in bytes of a log that is moved aside.
const LONG_LOG: u64 = 10 << 20;

/// A server that is to be started with this process's own standard streams.
///
/// On Linux, `exec` starts it under a guardian and *becomes* its shim: the same process, executing
/// a small program that watches the server for the parent of this one. Every system has
/// [`run`](Self::run), where this process stays. `docs/contain-reference.md` describes both.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wrapper {
    /// The program: a path, or a name that is looked up in this process's `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The `PATH` that it is looked up in, and gets; by default this process's own. See
    /// [`login_path`](crate::login_path).
    pub path: Option<OsString>,
    /// The file that its standard error is appended to, created for this user alone; by default
    /// this process's own standard error. One of more than 10 MiB is first renamed to `FILE.1`.
    pub log: Option<PathBuf>,
    /// A display name for the server, shown by `ps` and used for nothing else; `None` for no name.
    pub name: Option<OsString>,
    /// The name in the record of ends if `name` is `None`; by default the program.
    pub label: Option<OsString>,
    /// The time to end by itself after the end of its input, after SIGTERM, and when the shim was
    /// killed. Counted in milliseconds. 2 s by default.
    pub grace: Duration,
    /// The least containment that the server must have. [`Require::Nothing`] by default.
    pub require: Require,
    /// Limits on what the server and its descendants use together; none by default. If they need
    /// more memory, the kernel ends all of them, and the shim reports it. Where a limit cannot be
    /// set, no server is started.
    pub limits: Limits,
    /// Set if the server cannot signal or trace what holds it and this process's host, nor leave
    /// its cgroup. `false` by default. Where the kernel cannot, no server is started.
    pub hardened: bool,
    /// The directories and files that the server and its descendants may write, with all below
    /// them; `None` by default, for all. Reading is free. Where the kernel cannot, or one is missing,
    /// no server is started. `docs/containment.md` names what is writable besides.
    pub writable: Option<Vec<PathBuf>>,
    /// Set if the server's environment carries its identity (`MCP_LIFECYCLE_ID`), by which a search
    /// for orphans finds it. `true` by default.
    pub mark: bool,
    /// Variables that are added to this process's environment, or replace its own.
    pub env: Vec<(OsString, OsString)>,
    /// Patterns of the processes that are kept, with all below them, when the server ends: a
    /// daemon, a browser. A pattern with a slash is compared with the whole command line, any other
    /// with the name of the process and of its program; `*` and `?` as in a shell. At most 255
    /// bytes together. A pattern that matches the server itself is refused.
    pub keep: Vec<OsString>,
    /// Set if the server is a program of the terminal, such as an agent: it stays in the process
    /// group and so in the foreground, gets the terminal's signals itself, and is not ended after
    /// the end of its input. What it abandons while it lives is ended. `false` by default. Without a
    /// guardian it is not started.
    pub in_foreground: bool,
    /// Set if the shim exits with 137 where the server died of SIGKILL, instead of dying of SIGKILL
    /// too. Then the SIGKILL of a shim proves nothing about its server. `false` by default.
    pub sigkill_as_code: bool,
    /// The file, pipe or socket that the guardian writes two lines of JSON to: at the start of the
    /// server, and when nothing of it is left. A line is written at once or dropped, if it is open
    /// with `O_NONBLOCK` or a socket. Without a guardian there is no server then. `None` for no
    /// report.
    pub report: Option<Arc<OwnedFd>>,
    /// A stream socket to a process that ends what the server starts beside itself, such as
    /// containers; `None` if there is none. Guardian and shim keep it open.
    ///
    /// The other process receives [`SERVER_GONE`](Self::SERVER_GONE), or the end of file when both
    /// have ended. The guardian waits for its [`COMPANION_DONE`](Self::COMPANION_DONE), for the
    /// grace and 15 s, and has no proof of the end without it.
    pub companion: Option<Arc<OwnedFd>>,
    /// Receives why the server has no record for a search for orphans. Does nothing by default.
    pub unrecorded: fn(&io::Error),
    /// The server's `argv[0]`; by default the program.
    arg0: Option<OsString>,
    /// The specification's hash, and the longest wait for a predecessor.
    #[cfg(target_os = "linux")]
    exclusive: Option<(u32, Duration)>,
}

/// The containment that a wrapped server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Require {
    /// The best that this machine has.
    #[default]
    Nothing,
    /// A process group.
    Group,
    /// A guardian.
    Guardian,
    /// A guardian and a cgroup.
    Cgroup,
    /// A guardian and a PID namespace of its own, which it does not get otherwise.
    PidNamespace,
}

/// Failure to start a server; this process is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct WrapError {
    kind: LaunchErrorKind,
    is_unavailable: bool,
}

impl WrapError {
    /// The kind of failure.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }

    /// Returns whether this machine cannot contain any server, but could execute the program.
    pub fn is_unavailable(&self) -> bool {
        self.is_unavailable
    }
}

impl From<LaunchErrorKind> for WrapError {
    fn from(kind: LaunchErrorKind) -> Self {
        Self {
            kind,
            is_unavailable: false,
        }
    }
}

fn no_log(error: io::Error) -> LaunchErrorKind {
    LaunchErrorKind::backend("the server's standard error cannot go to its file", error)
}

impl Wrapper {
    /// Creates a wrapper of a program with its arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().collect(),
            path: None,
            log: None,
            name: None,
            label: None,
            grace: Duration::from_secs(2),
            require: Require::Nothing,
            limits: Limits::default(),
            hardened: false,
            writable: None,
            mark: true,
            env: Vec::new(),
            keep: Vec::new(),
            in_foreground: false,
            sigkill_as_code: false,
            report: None,
            companion: None,
            unrecorded: |_| {},
            arg0: None,
            #[cfg(target_os = "linux")]
            exclusive: None,
        }
    }

    /// Replaces a runner by the package that it has started less than `age` ago, or has the
    /// `recorder` see what it starts now: see [`direct`](crate::direct). To be called last, and from
    /// the server's working directory.
    pub fn start_directly(&mut self, age: Duration, recorder: Option<&Path>) -> Start {
        // Other programs need not be looked up twice.
        let may = direct::may_replace(&self.program, &self.args);
        let Some(Ok(mut command)) = may.then(|| self.command(None)) else {
            return Start::Unchanged;
        };
        let start = direct::replace(&mut command, age, recorder);
        if start != Start::Unchanged {
            self.program = command.program.into();
            self.arg0 = Some(command.arg0);
            self.args = command.args;
            self.env = command.env.into_iter().collect();
        }
        start
    }

    fn is_restricted(&self) -> bool {
        self.hardened || self.writable.is_some()
    }

    /// Opens the log. Only a file is accepted; a long one is moved aside, if that is possible.
    fn open_log(&self) -> io::Result<Option<File>> {
        let Some(path) = &self.log else {
            return Ok(None);
        };
        let is_long = |it: fs::Metadata| it.is_file() && it.len() > LONG_LOG;
        if fs::symlink_metadata(path).is_ok_and(is_long) {
            let mut aside = path.clone().into_os_string();
            aside.push(".1");
            let _ = fs::rename(path, aside);
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        // A report begins to read at its end.
        options.read(self.report.is_some());
        #[cfg(unix)]
        options
            .mode(0o600)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        let log = options.open(path).and_then(|mut log| {
            log.seek(io::SeekFrom::End(0)).ok();
            let is_file = log.metadata()?.is_file();
            is_file
                .then_some(log)
                .ok_or_else(|| io::Error::other("it is not a file"))
        });
        let said =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        log.map(Some).map_err(said)
    }

    /// Resolves the program, and adds the path, the variables and the mark to the environment.
    fn command(&self, identity: Option<&Cookie>) -> Result<Command, LaunchErrorKind> {
        let mut env: BTreeMap<_, _> = env::vars_os().collect();
        if let Some(path) = &self.path {
            env.insert("PATH".into(), path.clone());
        }
        env.extend(self.env.iter().cloned());
        // A directory that was removed has no name; then relative paths are not found.
        let directory = env::current_dir();
        let directory = directory.as_deref().unwrap_or(Path::new("."));
        let identity = identity.filter(|_| self.mark).cloned();
        let words = (self.program.as_os_str(), self.args.clone());
        let mut command = Command::new(words, env, identity, directory, None)?;
        if let Some(arg0) = &self.arg0 {
            command.arg0.clone_from(arg0);
        }
        Ok(command)
    }
}
