//! The failure of a launch, or of a search for orphans.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::BoxError;
use crate::launch::containment::ContainmentUnavailable;
use crate::launch::error::spec::SpecError;
use crate::launch::spec::ServerSpec;

/// A server could not be launched. Nothing of it is left.
#[derive(Debug)]
pub struct LaunchError {
    launcher: String,
    command: String,
    kind: LaunchErrorKind,
}

/// What went wrong with a launch, by what the caller can do about it.
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
    #[error("working directory {} cannot be entered", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The specification is not valid for this launcher.
    #[error("the server specification is not valid")]
    InvalidSpec(#[source] SpecError),
    /// A required guarantee cannot be given here.
    #[error("a required guarantee is not available here")]
    Containment(#[source] ContainmentUnavailable),
    /// A limit was reached: of the system, of the launcher, of the far side.
    #[error("a limit was reached: {what}")]
    Limit {
        /// Which limit, and how it can be raised.
        what: String,
        /// The error it was seen by, if there is one.
        #[source]
        source: Option<BoxError>,
    },
    /// Anything else, from the launcher's own world.
    #[error("{what}")]
    Backend {
        /// What was being done.
        what: String,
        /// Why it failed.
        #[source]
        source: BoxError,
    },
}

impl LaunchErrorKind {
    /// Anything from the launcher's own world; `what` says what failed, as a
    /// lower-case fragment.
    pub fn backend(what: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Backend {
            what: what.into(),
            source: source.into(),
        }
    }
}

impl LaunchError {
    /// The failure of `launcher` to launch `spec`.
    pub fn new(launcher: impl Into<String>, spec: &ServerSpec, kind: LaunchErrorKind) -> Self {
        Self {
            launcher: launcher.into(),
            command: spec.display_command().to_string(),
            kind,
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            launcher,
            command,
            kind,
        } = self;
        write!(f, "{launcher} launcher failed to start `{command}`: {kind}")
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The kind is part of this level's message; the chain goes on below it.
        self.kind.source()
    }
}

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

/// The search for orphans of earlier hosts failed.
#[derive(Debug, Error)]
#[error("{launcher} launcher failed to look for orphans of earlier hosts")]
pub struct ReapError {
    launcher: String,
    #[source]
    source: BoxError,
}

impl ReapError {
    /// The search by `launcher` failed for this reason.
    pub fn new(launcher: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self {
            launcher: launcher.into(),
            source: source.into(),
        }
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
