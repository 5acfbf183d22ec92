//! The findings of a look for containers of dead hosts, in any build.

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

/// Containers that servers of dead hosts started.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) containers: Vec<Remnant>,
    /// Places that could not be looked at: there may be more containers there.
    pub(crate) unknown: Vec<UnknownRemnant>,
}
