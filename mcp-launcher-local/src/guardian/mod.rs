//! Containment by guardian: the default on Linux.
//!
//! Each server's parent is a small process, the guardian, which outlives the host until everything
//! that the server started has ended: `docs/containment.md`. There is no proof where the guardian
//! was killed, and the server had no cgroup of its own, or has left it, or the search failed. The
//! termination names what may live; forcing the end again looks again.
//!
//! ```text
//! contained  a command of another library behind a guardian
//! spawn ──── one launch: streams, identity, cgroup, guardian, and its undoing
//! server ─── the primitives of a running server
//! hear ───── receives the guardian's reports, and its end
//! conclude ─ does what the `conclusion` asks for
//! look ───── lists living processes, as far as the host can read them
//! strays ─── ends processes outside the tree and cgroup, by their mark
//! ```

mod conclude;
#[cfg(feature = "process-wrap")]
mod contained;
mod hear;
mod look;
mod server;
mod spawn;
mod strays;

#[cfg(feature = "process-wrap")]
pub use contained::{Contained, ContainedChild};
pub(crate) use mcp_tree::plan::Plan;
pub(crate) use mcp_tree::probe::{Found, known, probe};
pub(crate) use spawn::{Spawned, spawn};
