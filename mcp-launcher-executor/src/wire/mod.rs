//! The parts that both ends of the wire have: shared with the daemon `mcp-executor` of the
//! same version. No API: anything here may change.
#![expect(missing_debug_implementations, reason = "public for the daemon alone")]

mod convert;
pub mod link;
pub mod protocol;

pub use convert::{containment, remnant, wire_code, wire_containment, wire_proof, wire_remnant};
