//! One server in a configuration file, and its position.

use std::fmt;
use std::ops::Range;

use mcp_lifecycle_core::document::Node;

use crate::show::text::one_line;

/// The keys of a server in a file, and the number of earlier servers with the same keys.
pub(crate) type Key = (Vec<String>, usize);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: Vec<String>,
    /// The number of earlier servers with the same keys.
    pub(super) occurrence: usize,
    /// From its key to the end of its value, or its lines.
    pub(super) range: Range<usize>,
    /// The command, or the reason that there is nothing to wrap.
    pub(super) command: Result<Command, Skip>,
    /// Secret values: of its variables and headers.
    pub(super) secrets: Vec<Range<usize>>,
}

#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: Node,
    pub(super) args: Args,
    /// The program and its arguments are one list.
    pub(super) is_list: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Args {
    /// The key is missing and would be inserted here, between these two texts.
    Missing {
        at: usize,
        before: String,
        after: String,
    },
    List {
        /// The list, with brackets.
        range: Range<usize>,
        elements: Vec<Node>,
        /// The range to remove with the key, if nothing else is in it.
        removal: Option<Range<usize>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Skip {
    Remote,
    NoCommand,
    Wrapped,
    /// Not wrapped, so there is nothing to undo.
    NotWrapped,
    /// Wrapped, but not by `wrap`.
    WrappedBefore,
    Unclear(String),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote => f.write_str("is reached by its url, and not started"),
            Self::NoCommand => f.write_str("has no command"),
            Self::Wrapped => f.write_str("is wrapped already"),
            Self::NotWrapped => f.write_str("is not wrapped"),
            Self::WrappedBefore => f.write_str("was wrapped by hand, and stays so"),
            Self::Unclear(why) => f.write_str(why),
        }
    }
}

impl Entry {
    pub(super) fn title(&self) -> String {
        one_line(&self.path.join(" › "))
    }

    /// Returns a key that is unique in the file.
    pub(super) fn key(&self) -> Key {
        (self.path.clone(), self.occurrence)
    }
}
