//! The common parts of launchers that talk to an engine or a cluster. Internal to this workspace:
//! it changes without notice.

pub mod control;
pub mod fields;
pub mod known;
pub mod options;
mod output;
pub mod program;
pub mod random;
#[cfg(feature = "tls")]
pub mod tls;

pub use output::output;
