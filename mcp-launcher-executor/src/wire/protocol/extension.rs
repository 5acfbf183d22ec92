//! The extensions that our daemon and our client agree on beyond the base protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The extensions by name. Others may add theirs; unknown ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extensions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_lifecycle: Option<Lifecycle>,
}

pub const VERSION: u32 = 1;

/// The `Server` that our daemon names when it answers for a WebSocket.
pub const SERVER: &str = "mcp-executor";

/// The `mcpLifecycle` extension: in the request what the client wishes, in the
/// answer what holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    pub version: u32,
    /// Bytes per stream that the daemon sends ahead of what was consumed.
    pub window: Option<u64>,
    /// The time for which a silent client keeps its processes, in milliseconds.
    pub lease_ms: Option<u64>,
    /// The largest frame that the daemon takes, in bytes. Answer only.
    pub max_frame: Option<u64>,
    /// The time that the processes of a session may take to end after its lease, in
    /// milliseconds. Answer only.
    pub grace_ms: Option<u64>,
    /// A word that no other daemon can say at the same time: machine, boot, namespaces, user,
    /// records and address, as an opaque word. One that says the same later has ended what
    /// this one left. Answer only.
    pub machine: Option<String>,
    /// Output comes as raw frames, see [`RawOutput`](super::RawOutput): over a
    /// WebSocket only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw_output: bool,
    /// The containment of a server by the daemon. Answer only.
    pub containment: Option<WireContainment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireContainment {
    pub mechanism: String,
    /// `process`, `group`, `tree` or `container`; nothing by any other name.
    pub on_terminate: String,
    #[serde(default)]
    pub atomic: bool,
    pub fallback: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireRemnant {
    /// `process` or `container`.
    #[serde(default)]
    pub kind: String,
    pub id: String,
    #[serde(default)]
    pub name: String,
}

/// `process/gone`: the proof, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneNotification {
    pub process_id: String,
    pub seq: u64,
    #[serde(default)]
    pub swept: Vec<WireRemnant>,
    #[serde(default)]
    pub swept_count: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Set when the daemon lost the means to prove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// `session/ended`: the session is over, and its processes have been ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedNotification {
    #[serde(default)]
    pub unproven: u64,
}

/// How long a daemon that was stopped or starved may let a lease run over.
pub fn longest_reprieve(lease: Duration) -> Duration {
    (lease / 2).min(Duration::from_secs(10))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AckParams {
    pub process_id: String,
    /// The last event that was received: the daemon may forget all up to it.
    pub seq: u64,
    /// Bytes of standard output consumed since the start.
    #[serde(default)]
    pub stdout: u64,
    #[serde(default)]
    pub stderr: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorsResult {
    #[serde(default)]
    pub alive: Vec<WireRemnant>,
}
