use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::document::position;
use crate::launch::SpecError;

/// The failure to read a configuration.
///
/// `Display` begins with the position, as compilers do: `file:line:column: `.
#[derive(Debug)]
pub struct ConfigError {
    context: Box<ConfigErrorContext>,
    kind: ConfigErrorKind,
}

/// The position of a [`ConfigError`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct ConfigErrorContext {
    pub file: Option<PathBuf>,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 for the whole file.
    pub column: usize,
}

/// The kinds of errors.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum ConfigErrorKind {
    #[error("the file cannot be read: {0}")]
    Io(std::io::Error),
    /// The text is not well-formed, or a known key has a wrong value.
    #[error("{0}")]
    Syntax(String),
    #[error("no servers: expected `mcpServers`, `servers`, `mcp.servers` or `mcp_servers`")]
    NoServers,
    #[error("server `{server}`: {problem}")]
    Variable { server: String, problem: String },
    #[error("server `{server}`: no launcher `{launcher}`; there are: {}", known.join(", "))]
    UnknownLauncher {
        server: String,
        launcher: String,
        known: Vec<String>,
    },
    #[error("server `{server}` is not valid: {cause}")]
    Spec { server: String, cause: SpecError },
}

impl ConfigError {
    /// Returns the kind of error.
    pub fn kind(&self) -> &ConfigErrorKind {
        &self.kind
    }

    /// Returns the position.
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
    /// Returns an error of this offset, or of the whole file.
    pub(super) fn at(self, text: &str, offset: Option<usize>) -> ConfigError {
        let (line, column) = offset.map_or((0, 0), |at| position(text, at));
        let file = None;
        ConfigError {
            context: Box::new(ConfigErrorContext { file, line, column }),
            kind: self,
        }
    }
}
