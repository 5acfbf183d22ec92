//! Turns a server specification into what the operating system needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::{LaunchErrorKind, ServerSpec, SpecError};

use crate::identity::{self, Cookie};
use crate::resolve::resolve;
use crate::sys;

/// The manner in which a command is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The command as it is.
    Unchanged,
    /// The command by its runner, which is recorded, for the first time or again.
    Recorded { is_first: bool },
    /// The package, as its runner has executed it before.
    Direct,
}

#[derive(Debug)]
pub struct Command {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// The program as the specification names it; the server's `argv[0]`.
    pub arg0: OsString,
    pub args: Vec<OsString>,
    pub env: BTreeMap<OsString, OsString>,
    /// The server's identity, which is in its environment too.
    pub identity: Option<Cookie>,
    pub cwd: Option<PathBuf>,
}

impl Command {
    /// Looks up the program and checks the working directory, which may block on a network mount.
    pub fn prepare(spec: &ServerSpec) -> Result<Self, LaunchErrorKind> {
        let Some(arg0) = spec.program() else {
            return Err(LaunchErrorKind::InvalidSpec(SpecError::EmptyCommand));
        };
        // It may have been removed, and then a server without its own starts there all the same.
        let host_dir = std::env::current_dir();
        let cwd = match (spec.cwd(), &host_dir) {
            (Some(dir), Ok(host_dir)) => Some(host_dir.join(dir)),
            (Some(dir), Err(_)) => Some(dir.to_owned()),
            (None, _) => None,
        };
        if let Some(dir) = &cwd {
            // Entering is needed, listing is not.
            dir.join(".")
                .metadata()
                .map_err(|e| working_directory(dir, e))?;
        }
        let base = cwd.as_ref().or(host_dir.as_ref().ok());
        Self::new(
            (arg0, spec.args().to_vec()),
            spec.env().resolve(std::env::vars_os()),
            new_identity()?,
            base.map_or(Path::new("."), PathBuf::as_path),
            cwd.clone(),
        )
    }

    /// Looks up a program from `base`, and marks its environment with this identity alone: the host
    /// may itself be a server, and its mark must not be inherited.
    pub(crate) fn new(
        (arg0, args): (&OsStr, Vec<OsString>),
        mut env: BTreeMap<OsString, OsString>,
        identity: Option<Cookie>,
        base: &Path,
        cwd: Option<PathBuf>,
    ) -> Result<Self, LaunchErrorKind> {
        env.remove(OsStr::new(identity::VARIABLE));
        env.remove(OsStr::new(identity::KEEP));
        let program = resolve(arg0, &env, base)?;
        if let Some(identity) = &identity {
            env.insert(identity::VARIABLE.into(), identity.to_string().into());
        }
        Ok(Self {
            program,
            arg0: arg0.to_owned(),
            args,
            env,
            identity,
            cwd,
        })
    }

    /// Returns the command that runs a text file by a shell.
    #[cfg(target_os = "linux")]
    pub fn by_shell(&self) -> Option<Self> {
        use std::io::Read as _;
        const SHELL: &str = "/bin/sh";
        let mut start = [0; 128];
        let mut file = std::fs::File::open(&self.program).ok()?;
        let len = file.read(&mut start).ok()?;
        let line = start.get(..len)?.split(|&byte| byte == b'\n').next()?;
        if line.contains(&0) || line.starts_with(b"\x7fELF") {
            return None;
        }
        let program = self.program.clone().into_os_string();
        Some(Self {
            program: SHELL.into(),
            arg0: SHELL.into(),
            args: [&[program], &self.args[..]].concat(),
            env: self.env.clone(),
            identity: self.identity.clone(),
            cwd: None,
        })
    }

    /// Explains a failure to execute. The program was there a moment ago: its interpreter is
    /// missing.
    pub fn explain(&self, error: std::io::Error) -> LaunchErrorKind {
        match error.raw_os_error() {
            Some(errno) if sys::is_not_executable(errno) => {
                LaunchErrorKind::NotExecutable(self.program.clone())
            }
            _ => short_of(error, "the process could not be started"),
        }
    }
}

/// Returns the identity of a new server, if this machine allows one.
pub fn new_identity() -> Result<Option<Cookie>, LaunchErrorKind> {
    match identity::new_server() {
        // An unidentified server could not be found again.
        Err(error) if sys::is_shortage(&error) => {
            Err(short_of(error, "the server could not be given an identity"))
        }
        identity => Ok(identity.ok()),
    }
}

/// Returns the limit that was reached, or the error if it says something else.
pub fn limit(error: std::io::Error) -> Result<LaunchErrorKind, std::io::Error> {
    let Some(what) = sys::limit_of(&error) else {
        return Err(error);
    };
    Ok(LaunchErrorKind::Limit {
        what: what.to_owned(),
        cause: Some(error.into()),
    })
}

/// Returns the limit that was reached, or the error with `what`.
pub fn short_of(error: std::io::Error, what: &'static str) -> LaunchErrorKind {
    limit(error).unwrap_or_else(|error| LaunchErrorKind::backend(what, error))
}

/// Adds to [`short_of`] what became of a server that already ran.
#[cfg(unix)]
pub fn undone(error: std::io::Error, what: &str) -> LaunchErrorKind {
    match limit(error) {
        Ok(LaunchErrorKind::Limit { what: limit, cause }) => LaunchErrorKind::Limit {
            what: format!("{limit}; {what}"),
            cause,
        },
        Ok(other) => other,
        Err(error) => LaunchErrorKind::backend(what, error),
    }
}

pub fn working_directory(path: &Path, cause: std::io::Error) -> LaunchErrorKind {
    LaunchErrorKind::WorkingDirectory {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn who_stays_of_another_server_is_not_passed_on() {
        let outer = "5.6.0123";
        let spec = ServerSpec::builder("inner", "true")
            .env(identity::VARIABLE, outer)
            .env(identity::KEEP, "node")
            .env("OTHER", "passed on");
        let command = Command::prepare(&spec.build().unwrap()).unwrap();
        let of = |name: &str| command.env.get(OsStr::new(name)).map(OsString::as_os_str);
        assert_eq!(of(identity::KEEP), None);
        assert_ne!(of(identity::VARIABLE), Some(OsStr::new(outer)));
        assert_eq!(of("OTHER"), Some(OsStr::new("passed on")));
    }
}
