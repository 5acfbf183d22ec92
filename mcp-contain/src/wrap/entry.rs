//! One server as a configuration file has it, and where in the file that stands.

use std::fmt;
use std::ops::Range;

use crate::show::text::printable;

/// The keys of a server in a file, and how many before it have the same.
pub(crate) type Key = (Vec<String>, usize);

/// A server in a configuration file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The keys that lead to it, its name last.
    pub(super) path: Vec<String>,
    /// So many servers before it have the same keys.
    pub(super) occurrence: usize,
    /// From its key to the end of its value, or its lines.
    pub(super) range: Range<usize>,
    /// Command that is started, or the reason why there is nothing to be wrapped.
    pub(super) command: Result<Command, Skip>,
    /// Values that are nobody's business: those of its variables and headers.
    pub(super) secrets: Vec<Range<usize>>,
}

/// The program of a server and its arguments.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: Text,
    pub(super) args: Args,
}

/// A value in the file.
#[derive(Debug, Clone)]
pub(super) struct Text {
    /// `None` if it is no text.
    pub(super) value: Option<String>,
    /// As it is written, quotes included.
    pub(super) range: Range<usize>,
}

/// The arguments of a program.
#[derive(Debug, Clone)]
pub(super) enum Args {
    /// There is no such key. It is written here, between these two texts.
    Missing {
        at: usize,
        before: String,
        after: String,
    },
    List {
        /// The list, brackets included.
        range: Range<usize>,
        elements: Vec<Text>,
        /// The range to remove together with the key, if all of that is the key's own.
        removal: Option<Range<usize>>,
    },
}

/// The reason why a server is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Skip {
    /// It is reached by an address.
    Remote,
    /// It has no command.
    NoCommand,
    /// It is wrapped already.
    Wrapped,
    /// It is not wrapped, so there is nothing to undo.
    NotWrapped,
    /// It is wrapped, but was so before `wrap` came.
    WrappedBefore,
    /// It is written in a way that cannot be changed safely.
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
    /// The keys as one text, for people to read.
    pub(super) fn title(&self) -> String {
        printable(&self.path.join(" › "))
    }

    /// Key that tells it from all others of the file.
    pub(super) fn key(&self) -> Key {
        (self.path.clone(), self.occurrence)
    }
}
