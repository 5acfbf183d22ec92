//! A server specification turned into what the operating system needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::{LaunchErrorKind, ServerSpec, SpecError};

use crate::identity::{self, Cookie};
use crate::resolve::resolve;
use crate::sys;

/// The command to execute, with nothing left to look up.
#[derive(Debug)]
pub(crate) struct Command {
    /// The absolute path of the program.
    pub(crate) program: PathBuf,
    /// The program as the specification names it; the server's `argv[0]`.
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Whose it is, which its environment says as well. `None` where a process
    /// cannot be identified.
    pub(crate) identity: Option<Cookie>,
    /// The working directory, if it is not the host's own.
    pub(crate) cwd: Option<PathBuf>,
}

impl Command {
    /// Looks up the program and checks the working directory.
    ///
    /// Touches the file system, which may block on a network mount.
    pub(crate) fn prepare(spec: &ServerSpec) -> Result<Self, LaunchErrorKind> {
        let Some(arg0) = spec.program() else {
            return Err(LaunchErrorKind::InvalidSpec(SpecError::EmptyCommand));
        };
        let host_dir = std::env::current_dir().map_err(|e| working_directory(Path::new("."), e))?;
        let cwd = spec.cwd().map(|dir| host_dir.join(dir));
        if let Some(dir) = &cwd {
            // Listing is not needed, entering is: what a missing directory and
            // a file in its place have in common is that "." cannot be found.
            dir.join(".")
                .metadata()
                .map_err(|e| working_directory(dir, e))?;
        }
        let mut env = spec.env().resolve(std::env::vars_os());
        let identity = match identity::new_server() {
            // What cannot be found again is not started for want of a descriptor.
            Err(error) if sys::is_shortage(&error) => {
                return Err(short_of(error, "the server could not be given an identity"));
            }
            identity => identity.ok(),
        };
        // The host's own, if it is somebody's server, is not the server's.
        env.remove(OsStr::new(identity::VARIABLE));
        env.remove(OsStr::new(identity::KEEP));
        let program = resolve(arg0, &env, cwd.as_deref().unwrap_or(&host_dir))?;
        let mut command = Self {
            program,
            arg0: arg0.to_owned(),
            args: spec.args().to_vec(),
            env,
            identity: None,
            cwd,
        };
        command.carry(identity);
        Ok(command)
    }

    /// Makes it the command of the server with this identity, and returns the one it had.
    pub(crate) fn carry(&mut self, identity: Option<Cookie>) -> Option<Cookie> {
        match &identity {
            Some(identity) => self
                .env
                .insert(identity::VARIABLE.into(), identity.to_string().into()),
            None => self.env.remove(OsStr::new(identity::VARIABLE)),
        };
        std::mem::replace(&mut self.identity, identity)
    }

    /// The meaning of a failure to execute. The program was there and executable a
    /// moment ago, so a missing file now is its interpreter.
    pub(crate) fn explain(&self, error: std::io::Error) -> LaunchErrorKind {
        match error.raw_os_error() {
            Some(errno) if sys::is_not_executable(errno) => {
                LaunchErrorKind::NotExecutable(self.program.clone())
            }
            _ => short_of(error, "the process could not be started"),
        }
    }
}

/// The limit that an error says was reached.
///
/// # Errors
///
/// The error itself, if it says something else.
pub(crate) fn limit(error: std::io::Error) -> Result<LaunchErrorKind, std::io::Error> {
    let Some(what) = sys::limit_of(&error) else {
        return Err(error);
    };
    Ok(LaunchErrorKind::Limit {
        what: what.to_owned(),
        cause: Some(error.into()),
    })
}

/// As [`limit`], for an error that says one, or else `what`.
pub(crate) fn short_of(error: std::io::Error, what: &'static str) -> LaunchErrorKind {
    limit(error).unwrap_or_else(|error| LaunchErrorKind::backend(what, error))
}

/// As [`short_of`], for a server that ran already: says also what became of it.
#[cfg(unix)]
pub(crate) fn undone(error: std::io::Error, what: &str) -> LaunchErrorKind {
    match limit(error) {
        Ok(LaunchErrorKind::Limit { what: limit, cause }) => LaunchErrorKind::Limit {
            what: format!("{limit}; {what}"),
            cause,
        },
        Ok(other) => other,
        Err(error) => LaunchErrorKind::backend(what, error),
    }
}

pub(crate) fn working_directory(path: &Path, cause: std::io::Error) -> LaunchErrorKind {
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
