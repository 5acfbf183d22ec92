//! What a look for containers of dead hosts has found, in any build.

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

/// Containers that servers of dead hosts started.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) containers: Vec<Remnant>,
    /// What could not be looked at: there may be more of them.
    pub(crate) unknown: Vec<UnknownRemnant>,
}
