use std::fmt;
use std::path::Path;

use super::entry::Wrong;
use super::error::{ConfigError, ConfigErrorKind};
use super::expand::Lookup;
use super::registry::LauncherRegistry;
use crate::fleet::FleetServer;

/// The format of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JSON with `mcpServers`, `servers` or `mcp.servers`. Comments and trailing
    /// commas are accepted.
    Json,
    /// TOML with `[mcp_servers.NAME]`. Needs the feature `toml`.
    Toml,
}

/// Reads configurations.
pub struct ConfigReader<'a> {
    launchers: &'a LauncherRegistry,
    lookup: Box<Lookup<'a>>,
}

/// The content of a configuration.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerSet {
    /// The servers that can be launched, in the order of the file.
    pub servers: Vec<FleetServer>,
    /// The entries that are not launched.
    pub skipped: Vec<Skipped>,
}

/// An entry that is not launched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum Skipped {
    Remote {
        server: String,
    },
    Disabled {
        server: String,
    },
    /// The configuration is empty: none of the tables that hold servers is there.
    NoServers,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote { server } => {
                write!(f, "`{server}` is reached by URL and has nothing to launch")
            }
            Self::Disabled { server } => write!(f, "`{server}` is disabled"),
            Self::NoServers => ConfigErrorKind::NoServers.fmt(f),
        }
    }
}

impl<'a> ConfigReader<'a> {
    /// Creates a reader that resolves `${VAR}` in the host's environment.
    pub fn new(launchers: &'a LauncherRegistry) -> Self {
        Self {
            launchers,
            lookup: Box::new(|name| std::env::var(name).ok()),
        }
    }

    /// Sets the function that resolves `${VAR}`.
    #[must_use]
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        self.lookup = Box::new(lookup);
        self
    }

    /// Reads a file: TOML if its name ends in `.toml`, JSON otherwise. Blocks.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the position in the file.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Result<ServerSet, ConfigError> {
        let path = path.as_ref();
        let format = match path.extension() {
            Some(extension) if extension == "toml" => Format::Toml,
            _ => Format::Json,
        };
        let read = std::fs::read_to_string(path);
        let read = read.map_err(|error| ConfigErrorKind::Io(error).nowhere());
        read.and_then(|text| self.read_str(&text, format))
            .map_err(|error| error.in_file(path))
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the position in the string.
    pub fn read_str(&self, text: &str, format: Format) -> Result<ServerSet, ConfigError> {
        let entries = match format {
            Format::Json => crate::config::json::entries(text)?,
            #[cfg(feature = "toml")]
            Format::Toml => crate::config::toml::entries(text)?,
            #[cfg(not(feature = "toml"))]
            Format::Toml => return Err(ConfigErrorKind::NoToml.nowhere()),
        };
        let mut set = ServerSet::default();
        let Some(entries) = entries else {
            set.skipped.push(Skipped::NoServers);
            return Ok(set);
        };
        for found in entries {
            let server = found.name;
            if found.entry.is_disabled() {
                set.skipped.push(Skipped::Disabled { server });
            } else if found.entry.is_launchable() {
                let config = found
                    .entry
                    .into_config(&server, self.launchers, &self.lookup);
                set.servers
                    .push(config.map_err(|wrong| place(text, found.start..found.end, wrong))?);
            } else if found.entry.url.is_some() {
                set.skipped.push(Skipped::Remote { server });
            } else {
                let problem = format!(
                    "server `{server}` has neither `command` nor `url`, nor a `launcher` that knows its command"
                );
                return Err(ConfigErrorKind::Syntax(problem).at(text, found.start));
            }
        }
        Ok(set)
    }
}

fn place(text: &str, range: std::ops::Range<usize>, wrong: Wrong) -> ConfigError {
    let within = text.get(range.clone()).unwrap_or_default();
    let offset = wrong
        .at
        .as_deref()
        .and_then(|piece| within.find(piece))
        .unwrap_or(0);
    wrong.kind.at(text, range.start + offset)
}

impl fmt::Debug for ConfigReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigReader")
            .field("launchers", self.launchers)
            .finish_non_exhaustive()
    }
}
