use serde::{Deserialize, Serialize};

/// Process 1 of the container, which receives signals and orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// The init of this crate, mounted read-only from a ConfigMap into any image. It starts the
    /// server once a client is attached, so that no output is lost, and forwards SIGTERM to all
    /// processes. When the host is gone, the server has
    /// [`init_grace`](super::PodOptions::init_grace) to exit, then gets SIGTERM, and SIGKILL
    /// after the same time again; nothing outside the pod is needed. Needs Linux nodes of this
    /// build's architecture, `x86_64` or `aarch64`. More than about 64 KiB of unread input hide its
    /// end.
    Supervised,
    /// The server itself. Output before the launcher attaches is lost, and a server that ignores
    /// the end of its input survives its host until `reap_orphans` is called.
    None,
}
