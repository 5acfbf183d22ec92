use std::collections::HashSet;
use std::path::Path;

use super::entry::Entry;
use super::error::{ConfigError, ConfigErrorKind};
use super::expand::Lookup;
use super::registry::LauncherRegistry;
use crate::document::{Format, Misfit, Node, Value};
use crate::fleet::FleetServer;

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
#[derive(Debug, Clone, PartialEq, Eq, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum Skipped {
    #[displaydoc("`{server}` is reached by URL and has nothing to launch")]
    Remote { server: String },
    #[displaydoc("`{server}` is disabled")]
    Disabled { server: String },
    /// The configuration is empty: none of the tables that hold servers is there.
    #[displaydoc("no servers: expected `mcpServers`, `servers`, `mcp.servers` or `mcp_servers`")]
    NoServers,
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
        let read = std::fs::read_to_string(path);
        let read = read.map_err(|error| ConfigErrorKind::Io(error).at("", None));
        read.and_then(|text| self.read_str(&text, Format::of(path)))
            .map_err(|error| error.in_file(path))
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the position in the string.
    pub fn read_str(&self, text: &str, format: Format) -> Result<ServerSet, ConfigError> {
        let wrong = |misfit: Misfit| ConfigErrorKind::Syntax(misfit.problem).at(text, misfit.at);
        let root = format.parse(text).map_err(wrong)?;
        let mut set = ServerSet::default();
        let tables = tables(&root, format);
        if tables.is_empty() {
            return match root.value {
                Value::Table { members, .. } if members.is_empty() => {
                    set.skipped.push(Skipped::NoServers);
                    Ok(set)
                }
                _ => Err(ConfigErrorKind::NoServers.at(text, None)),
            };
        }
        let mut names = HashSet::new();
        for found in tables.into_iter().flat_map(Node::members) {
            let (start, server) = (Some(found.start), found.name.clone());
            let syntax = |problem| ConfigErrorKind::Syntax(problem).at(text, start);
            if !names.insert(&*found.name) {
                return Err(syntax(format!("server `{server}` occurs twice")));
            }
            let entry: Entry = found.node.read().map_err(|misfit| {
                wrong(Misfit {
                    at: misfit.at.or(start),
                    problem: format!("server `{server}`: {}", misfit.problem),
                })
            })?;
            if entry.is_disabled() {
                set.skipped.push(Skipped::Disabled { server });
            } else if entry.is_launchable() {
                let config = entry.into_config(&server, self.launchers, &self.lookup);
                let config = config.map_err(|wrong| {
                    let piece = wrong.at.and_then(|piece| text[found.start..].find(&*piece));
                    wrong.kind.at(text, Some(found.start + piece.unwrap_or(0)))
                })?;
                set.servers.push(config);
            } else if entry.url.is_some() {
                set.skipped.push(Skipped::Remote { server });
            } else {
                return Err(syntax(format!(
                    "server `{server}` has neither `command` nor `url`, nor a `launcher` that knows its command"
                )));
            }
        }
        Ok(set)
    }
}

fn tables(root: &Node, format: Format) -> Vec<&Node> {
    let keys: &[&[&str]] = match format {
        Format::Json => &[&["mcpServers"], &["servers"], &["mcp", "servers"]],
        Format::Toml => &[&["mcp_servers"]],
    };
    let mut tables = Vec::new();
    for keys in keys {
        root.find(keys, &mut |_, member| tables.push(&member.node));
    }
    tables.retain(|node| matches!(node.value, Value::Table { .. }));
    tables
}

crate::debug_fields! { ConfigReader<'_>, it { launchers: it.launchers } }
