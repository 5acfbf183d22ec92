//! Configuration files of MCP hosts, with the position of every value. Pure. What is hidden is
//! internal to this workspace.

mod json;
mod read;
#[cfg(feature = "document-toml")]
mod toml;

use std::ops::Range;
use std::path::Path;

use serde_json::Value as Scalar;

pub use read::Misfit;

/// The format of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JSON with `mcpServers`, `servers` or `mcp.servers`. Comments, trailing commas and the rest
    /// of JSON5 are accepted.
    Json,
    /// TOML with `[mcp_servers.NAME]`. Needs the feature `toml`.
    Toml,
}

#[derive(Debug, Clone)]
#[doc(hidden)]
pub struct Node {
    pub value: Value,
    /// Empty for a table of TOML that has no header.
    pub range: Range<usize>,
}

#[derive(Debug, Clone)]
#[doc(hidden)]
pub enum Value {
    Table {
        members: Vec<Member>,
        /// It is written in braces, with commas between its members.
        is_braced: bool,
    },
    List(Vec<Node>),
    Text(String),
    Other(Scalar),
}

#[derive(Debug, Clone)]
#[doc(hidden)]
pub struct Member {
    pub name: String,
    pub start: usize,
    pub node: Node,
}

impl Format {
    /// Returns the format of a file: TOML if its name ends in `.toml`, JSON otherwise.
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension == "toml" => Self::Toml,
            _ => Self::Json,
        }
    }

    /// Parses a text. The error quotes nothing of it: it may hold a secret.
    #[doc(hidden)]
    pub fn parse(self, text: &str) -> Result<Node, Misfit> {
        match self {
            Self::Json => json::parse(text),
            #[cfg(feature = "document-toml")]
            Self::Toml => toml::parse(text),
            #[cfg(not(feature = "document-toml"))]
            Self::Toml => {
                let problem = "TOML is not compiled in; enable the feature `toml`";
                Err(Misfit::new(None, &problem))
            }
        }
    }

    #[doc(hidden)]
    pub fn quote(self, text: &str) -> String {
        match self {
            #[cfg(feature = "document-toml")]
            Self::Toml => toml_edit::Value::from(text).to_string(),
            _ => Scalar::from(text).to_string(),
        }
    }
}

impl Node {
    pub fn members(&self) -> &[Member] {
        match &self.value {
            Value::Table { members, .. } => members,
            _ => &[],
        }
    }

    /// Returns the text; `None` if it is none.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Calls `found` with all that is at these keys, `*` for any, and its path. Duplicate keys are
    /// all followed.
    pub fn find<'a>(&'a self, keys: &[&str], found: &mut dyn FnMut(Vec<String>, &'a Member)) {
        let Some((key, rest)) = keys.split_first() else {
            return;
        };
        let named = |member: &&Member| *key == "*" || *key == member.name;
        for member in self.members().iter().filter(named) {
            let path = vec![member.name.clone()];
            match rest {
                [] => found(path, member),
                _ => member.node.find(rest, &mut |rest, member| {
                    found([path.clone(), rest].concat(), member);
                }),
            }
        }
    }
}

/// Returns the line and the column, from 1, of an offset.
#[doc(hidden)]
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line_start..].chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}
