//! The abilities of a launcher, as data.

use super::containment::Containment;

/// The abilities of a launcher: the steps of an end. The ladder skips what it cannot do,
/// without waiting for it.
///
/// A launcher claims what it can do, one thing at a time: what is added here later is
/// claimed by no launcher that does not know it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationSemantics {
    /// Closing standard input reaches the server as end of file.
    pub stdin_eof: bool,
    /// The server can be asked to end with SIGTERM, or the like of it.
    pub polite_signal: bool,
    /// The containment of the server's processes.
    pub containment: Containment,
}

impl TerminationSemantics {
    /// Nothing but a forced end, as far as this containment reaches.
    pub fn new(containment: Containment) -> Self {
        Self {
            stdin_eof: false,
            polite_signal: false,
            containment,
        }
    }

    /// Claims that the server sees end of file when its standard input is closed.
    #[must_use]
    pub fn with_stdin_eof(mut self) -> Self {
        self.stdin_eof = true;
        self
    }

    /// Claims that the server can be asked to end.
    #[must_use]
    pub fn with_polite_signal(mut self) -> Self {
        self.polite_signal = true;
        self
    }
}
