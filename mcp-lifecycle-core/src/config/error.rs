//! The errors of a configuration, with their place.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::launch::error::spec::SpecError;

/// A configuration cannot be read.
///
/// `Display` begins with the place, as compilers do: `file:line:column: `.
#[derive(Debug)]
pub struct ConfigError {
    /// Boxed: a path is larger on Windows, and every `Result` of a configuration with it.
    context: Box<ConfigErrorContext>,
    kind: ConfigErrorKind,
}

/// The place of a [`ConfigError`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConfigErrorContext {
    /// The file, if it was one.
    pub file: Option<PathBuf>,
    /// The line, from 1; 0 when it is the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0 when it is the file as a whole.
    pub column: usize,
}

/// The ways a configuration is wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(
        /// The reason.
        std::io::Error,
    ),
    /// The text is not well-formed, or a known key has a value that is not for it.
    #[error("{0}")]
    Syntax(
        /// The problem.
        String,
    ),
    /// None of the tables that hold servers is there.
    #[error("no servers: expected `mcpServers`, `servers`, `mcp.servers` or `mcp_servers`")]
    NoServers,
    /// A reference to a variable cannot be resolved.
    #[error("server `{server}`: {problem}")]
    Variable {
        /// The server's name.
        server: String,
        /// The variable, and the problem with it.
        problem: String,
    },
    /// No launcher of that name is registered.
    #[error("server `{server}`: no launcher `{launcher}`; there are: {}", known.join(", "))]
    UnknownLauncher {
        /// The server's name.
        server: String,
        /// The name that was asked for.
        launcher: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The specification that results is not valid.
    #[error("server `{server}` is not valid: {cause}")]
    Spec {
        /// The server's name.
        server: String,
        /// The reason.
        cause: SpecError,
    },
    /// The format is not compiled in.
    #[error("TOML is not compiled in; enable the feature `toml`")]
    NoToml,
}

impl ConfigError {
    /// The problem.
    pub fn kind(&self) -> &ConfigErrorKind {
        &self.kind
    }

    /// The place of the error.
    pub fn context(&self) -> &ConfigErrorContext {
        &self.context
    }

    pub(super) fn in_file(mut self, file: &Path) -> Self {
        self.context.file = Some(file.to_owned());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigErrorContext { file, line, column } = &*self.context;
        match file {
            Some(file) => write!(f, "{}:", file.display())?,
            None => f.write_str("configuration:")?,
        }
        if *line > 0 {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.kind)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigErrorKind {
    /// At this byte of the text.
    pub(super) fn at(self, text: &str, offset: usize) -> ConfigError {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let context = ConfigErrorContext {
            file: None,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        };
        ConfigError {
            context: Box::new(context),
            kind: self,
        }
    }

    /// Of the file as a whole.
    pub(super) fn nowhere(self) -> ConfigError {
        ConfigError {
            context: Box::default(),
            kind: self,
        }
    }
}
