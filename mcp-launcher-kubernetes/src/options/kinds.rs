//! The values that options have.

use serde::{Deserialize, Serialize};

/// The cases in which a node pulls the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PullPolicy {
    /// Pulls if the node does not have it.
    Missing,
    /// Before every launch.
    Always,
    /// Never: a missing image is an error.
    Never,
}

/// The first process of the container, where signals and orphans arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// An init of this crate, from a ConfigMap, read-only, for any image. It starts the server
    /// once somebody is attached, so that no output is lost; passes SIGTERM on to all; and when
    /// the host has gone, however it died, the server has
    /// [`init_grace_ms`](super::PodOptions::init_grace_ms) to leave, is asked to end, and is
    /// killed after the same time again. Nobody else is needed for that. Nodes with Linux on
    /// the architecture that this crate was built for, `x86_64` or `aarch64`. More than about
    /// 64 KiB that the server has not read hide the end of its input.
    Supervised,
    /// The server itself. What it writes before the launcher is attached is lost, and one
    /// that ignores the end of its input survives its host until `reap_orphans` is called.
    None,
}
