//! The policy for the containers that a server started.

/// The containers that a server started and that end with it.
///
/// Only containers that *this* server created, through what tracks it, are
/// meant: never one of the user's or of another program, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReapPolicy {
    /// Those that were meant to end with their client: created with `--rm`, or
    /// with the client's standard input attached. The others stay, and are
    /// reported: making lasting containers is the very job of some servers.
    #[default]
    Tied,
    /// All of them.
    All,
    /// None; all are reported.
    Report,
}

impl ReapPolicy {
    /// Returns whether a container ends, by whether it is tied.
    pub(crate) fn ends(self, tied: bool) -> bool {
        match self {
            Self::All => true,
            Self::Tied => tied,
            Self::Report => false,
        }
    }
}
