//! The failure of a launch.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::{BoxError, because};
use crate::launch::containment::ContainmentUnavailable;
use crate::launch::error::spec::SpecError;
use crate::launch::spec::ServerSpec;

/// A server could not be launched. Nothing of it is left.
#[derive(Debug)]
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
    /// The command, for people; what looks like a secret is blanked out.
    pub command: String,
}

/// The ways a launch fails, by what the caller can do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchErrorKind {
    /// No program of that name in any directory that was searched.
    #[error(
        "program `{program}` was not found in PATH ({}); install it or give its full path{}",
        join(.searched),
        hint(program)
    )]
    NotFound {
        /// The name that was looked for.
        program: String,
        /// The directories, in the order they were searched.
        searched: Vec<PathBuf>,
    },
    /// The path leads nowhere.
    #[error("no file at {}{}", .0.display(), hint(&.0.to_string_lossy()))]
    NoSuchFile(
        /// The path.
        PathBuf,
    ),
    /// There is a file, but it cannot be executed.
    #[error("{} is not executable; check its permissions and, for a script, its first line", .0.display())]
    NotExecutable(
        /// The path.
        PathBuf,
    ),
    /// The path is a directory.
    #[error("{} is a directory, not a program", .0.display())]
    IsDirectory(
        /// The path.
        PathBuf,
    ),
    /// The working directory cannot be entered.
    #[error("working directory {} cannot be entered: {cause}", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        cause: std::io::Error,
    },
    /// The specification is not valid for this launcher.
    #[error("the server specification is not valid: {0}")]
    InvalidSpec(
        /// The reason.
        SpecError,
    ),
    /// A required guarantee cannot be given here.
    #[error("a required guarantee is not available here: {0}")]
    Containment(
        /// The guarantee, and the containment there is.
        ContainmentUnavailable,
    ),
    /// A limit was reached: of the system, of the launcher, of the far side.
    #[error("a limit was reached: {what}{}", because(cause.as_ref()))]
    Limit {
        /// The limit, and the way to raise it.
        what: String,
        /// The error it was seen by, if there is one.
        cause: Option<BoxError>,
    },
    /// Anything else, specific to the launcher.
    #[error("{what}{}", because(Some(cause)))]
    Backend {
        /// The step that failed.
        what: String,
        /// The reason it failed.
        cause: BoxError,
    },
}

impl LaunchErrorKind {
    /// Anything that is specific to the launcher; `what` says what failed, as a
    /// lower-case fragment.
    pub fn backend(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self::Backend { what, cause }
    }
}

impl LaunchError {
    /// The failure of `launcher` to launch `spec`.
    pub fn new(launcher: impl Into<String>, spec: &ServerSpec, kind: LaunchErrorKind) -> Self {
        let context = LaunchErrorContext {
            launcher: launcher.into(),
            command: spec.display_command().to_string(),
        };
        Self { context, kind }
    }

    /// The kind of failure.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }

    /// The launcher, the server and its command.
    pub fn context(&self) -> &LaunchErrorContext {
        &self.context
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaunchErrorContext { launcher, command } = &self.context;
        let kind = &self.kind;
        write!(f, "{launcher} launcher failed to start `{command}`: {kind}")
    }
}

impl std::error::Error for LaunchError {}

/// The commonest mistake in a configuration.
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
