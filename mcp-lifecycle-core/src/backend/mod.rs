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

/// This build's processor, by the name that images have for it.
pub const ARCHITECTURE: &str = if cfg!(target_arch = "x86_64") {
    "amd64"
} else if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    std::env::consts::ARCH
};
