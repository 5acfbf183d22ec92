//! Errors, one type per operation.
//!
//! Each `Display` includes the cause, as a lower-case fragment. Errors of several kinds have a
//! [`kind`](LaunchError::kind), and a `context` with their subject.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::{ContainmentUnavailable, ServerSpec};

/// A boxed launcher-specific error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Prints an error with its causes on one line: `what: why: why of why`.
///
/// ```
/// use mcp_lifecycle_core::launch::ErrorChain;
///
/// let error = std::io::Error::new(std::io::ErrorKind::NotFound, "no such server");
/// assert_eq!(ErrorChain(&error).to_string(), "no such server");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a (dyn std::error::Error + 'a));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

fn because(cause: Option<&BoxError>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {}", ErrorChain(&**cause)))
}

/// The failure of a launch. Nothing of the server is left.
#[derive(Debug, Error)]
#[error("{} launcher failed to start `{}`: {kind}", .context.launcher, .context.command)]
pub struct LaunchError {
    context: LaunchErrorContext,
    kind: LaunchErrorKind,
}

/// The subject of a [`LaunchError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaunchErrorContext {
    /// The launcher's name.
    pub launcher: String,
    /// The command, for people; likely secrets are masked.
    pub command: String,
}

/// The kinds of failures, by what the caller can do about them.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum LaunchErrorKind {
    #[error(
        "program `{program}` was not found in PATH ({}); install it or give its full path{}",
        join(.searched),
        hint(program)
    )]
    NotFound {
        program: String,
        /// The directories, in search order.
        searched: Vec<PathBuf>,
    },
    #[error("no file at {}{}", .0.display(), hint(&.0.to_string_lossy()))]
    NoSuchFile(PathBuf),
    #[error("{} is not executable; check its permissions and, for a script, its first line", .0.display())]
    NotExecutable(PathBuf),
    #[error("{} is a directory, not a program", .0.display())]
    IsDirectory(PathBuf),
    #[error("working directory {} cannot be entered: {cause}", path.display())]
    WorkingDirectory {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("the server specification is not valid: {0}")]
    InvalidSpec(SpecError),
    #[error("a required guarantee is not available here: {0}")]
    Containment(ContainmentUnavailable),
    /// A limit of the system, the launcher or the remote side was reached.
    #[error("a limit was reached: {what}{}", because(cause.as_ref()))]
    Limit {
        what: String,
        /// The error that reported it, if any.
        cause: Option<BoxError>,
    },
    /// Anything else, specific to the launcher.
    #[error("{what}{}", because(Some(cause)))]
    Backend { what: String, cause: BoxError },
}

impl LaunchErrorKind {
    /// Creates a launcher-specific failure; `what` is the failed step as a lower-case fragment.
    pub fn backend(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self::Backend { what, cause }
    }
}

impl LaunchError {
    /// Creates the failure of `launcher` to launch `spec`.
    pub fn new(launcher: impl Into<String>, spec: &ServerSpec, kind: LaunchErrorKind) -> Self {
        let context = LaunchErrorContext {
            launcher: launcher.into(),
            command: spec.display_command().to_string(),
        };
        Self { context, kind }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }

    /// Returns the launcher and its command.
    pub fn context(&self) -> &LaunchErrorContext {
        &self.context
    }
}

fn hint(program: &str) -> &'static str {
    match program.contains(char::is_whitespace) {
        true => "; the command contains spaces: put its arguments into `args`",
        false => "",
    }
}

fn join(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "it is empty".to_owned();
    }
    let paths: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(":")
}

/// The reason a [`ServerSpec`](crate::launch::ServerSpec) is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum SpecError {
    #[error("the server's name is empty")]
    EmptyName,
    #[error("the command is empty; give the program to run")]
    EmptyCommand,
    #[error("{what} contains a NUL byte")]
    NulByte { what: &'static str },
    #[error("environment variable name {name:?} is empty or contains `=` or a NUL byte")]
    InvalidEnvName { name: String },
    /// An option that the launcher does not know or cannot read.
    #[error("option `{name}`: {problem}")]
    InvalidOption { name: String, problem: String },
}

pub(super) fn reject_nul(what: &'static str, value: &OsStr) -> Result<(), SpecError> {
    if value.as_encoded_bytes().contains(&0) {
        return Err(SpecError::NulByte { what });
    }
    Ok(())
}

/// The failure of one step of a termination, or of its proof. The ladder continues with the next.
#[derive(Debug, Error)]
#[error("failed to {action}{}", because(Some(cause)))]
pub struct StepError {
    action: &'static str,
    cause: BoxError,
}

impl StepError {
    /// Creates the failure; `action` completes the sentence "failed to …".
    pub fn new(action: &'static str, cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self { action, cause }
    }
}

/// The failure of a search for orphans.
#[derive(Debug, Error)]
#[error(
    "{launcher} launcher failed to look for orphans of earlier hosts{}",
    because(Some(cause))
)]
pub struct ReapError {
    launcher: String,
    cause: BoxError,
}

impl ReapError {
    /// Creates the failure of a search by `launcher`.
    pub fn new(launcher: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (launcher, cause) = (launcher.into(), cause.into());
        Self { launcher, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_in_place_of_a_program_is_told_where_its_arguments_go() {
        let kinds = |program: &str| {
            let searched = Vec::new();
            let not_found = LaunchErrorKind::NotFound {
                program: program.to_owned(),
                searched,
            };
            [not_found, LaunchErrorKind::NoSuchFile(program.into())].map(|kind| kind.to_string())
        };
        for text in kinds("npx -y @scope/server") {
            assert!(text.contains("put its arguments into `args`"), "{text}");
        }
        for text in kinds("npx") {
            assert!(!text.contains("args"), "{text}");
        }
    }
}
