/// The containers that end with the server that started them.
///
/// Only containers that *this* server created through the tracker count, never the user's or
/// another program's, whatever their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReapPolicy {
    /// Containers that end with their client: created with `--rm`, or with the client's stdin
    /// attached. The others stay and are reported, since some servers exist to create lasting
    /// containers.
    #[default]
    Tied,
    /// All.
    All,
    /// None; all are reported.
    Report,
}

impl ReapPolicy {
    pub(crate) fn ends(self, tied: bool) -> bool {
        match self {
            Self::All => true,
            Self::Tied => tied,
            Self::Report => false,
        }
    }
}
