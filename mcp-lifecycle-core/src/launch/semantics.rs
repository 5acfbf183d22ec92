use super::Containment;

/// The abilities of a launcher: the steps of an end. The ladder skips steps that are not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationSemantics {
    /// Closing stdin reaches the server as end of file.
    pub stdin_eof: bool,
    /// The server can be asked to end, with SIGTERM or an equivalent.
    pub polite_signal: bool,
    /// The containment of the server's processes.
    pub containment: Containment,
}

impl TerminationSemantics {
    /// Creates semantics with nothing but a forced end.
    pub fn new(containment: Containment) -> Self {
        Self {
            stdin_eof: false,
            polite_signal: false,
            containment,
        }
    }

    /// Claims that closing stdin reaches the server as end of file.
    #[must_use]
    pub fn stdin_eof(mut self) -> Self {
        self.stdin_eof = true;
        self
    }

    /// Claims that the server can be asked to end.
    #[must_use]
    pub fn polite_signal(mut self) -> Self {
        self.polite_signal = true;
        self
    }
}
