//! What our daemon and our client agree on beyond the base protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The extensions by name. Others may add theirs; unknown ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extensions {
    /// Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_lifecycle: Option<Lifecycle>,
}

/// The version of [`Lifecycle`] described here.
pub const VERSION: u32 = 1;

/// The `mcpLifecycle` extension: in the request what the client wishes, in the
/// answer what holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// [`VERSION`].
    pub version: u32,
    /// Bytes per stream that the daemon sends ahead of what was consumed.
    #[serde(default)]
    pub window: Option<u64>,
    /// How long a silent client keeps its processes, in milliseconds.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// The largest frame that whoever says it takes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frame: Option<u64>,
    /// How many processes a session may have. Answer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// How long the processes of a session may take to end after its lease, in
    /// milliseconds. Answer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// What no other daemon can say at the same time: machine, boot, namespaces, user
    /// and address, as an opaque word. One that says the same later has ended what
    /// this one left. Answer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Output comes as raw frames, see [`RawOutput`](super::RawOutput): over a
    /// WebSocket only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw_output: bool,
    /// How well the daemon holds a server together. Answer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<WireContainment>,
}

/// A [`Containment`](mcp_lifecycle_core::Containment) on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireContainment {
    /// The mechanism.
    pub mechanism: String,
    /// What a forced end reaches.
    pub on_terminate: WireReach,
    /// What ends when the daemon dies.
    pub on_host_death: WireReach,
    /// Complete before the first instruction.
    #[serde(default)]
    pub atomic: bool,
    /// Why it is not more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// A [`Reach`](mcp_lifecycle_core::launch::Reach) on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WireReach {
    /// The main process.
    Process,
    /// Its group.
    Group,
    /// Every descendant.
    Tree,
    /// Everything inside.
    Container,
    /// Nothing, or something this version has no name for.
    #[serde(other)]
    Nothing,
}

/// Something that is or was alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireRemnant {
    /// `process` or `container`.
    #[serde(default)]
    pub kind: String,
    /// Its identifier there.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// `process/gone`: the proof, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneNotification {
    /// Which process.
    pub process_id: String,
    /// Its place in the order of events.
    pub seq: u64,
    /// What outlived the main process and was ended.
    #[serde(default)]
    pub swept: Vec<WireRemnant>,
    /// How many there were.
    #[serde(default)]
    pub swept_count: u64,
    /// What the proof rests on, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Set when the daemon lost the means to prove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// `session/ended`: the session is over, and its processes have been ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedNotification {
    /// How many of them are not proven gone.
    #[serde(default)]
    pub unproven: u64,
}

/// How long a daemon that was stopped or starved may let a lease run over.
pub(crate) fn longest_reprieve(lease: Duration) -> Duration {
    (lease / 2).min(Duration::from_secs(10))
}

/// `process/ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AckParams {
    /// Which process.
    pub process_id: String,
    /// Everything up to here was received: the daemon may forget it.
    pub seq: u64,
    /// Bytes of standard output consumed since the start.
    #[serde(default)]
    pub stdout: u64,
    /// Bytes of standard error consumed since the start.
    #[serde(default)]
    pub stderr: u64,
}

/// Result of `process/list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResult {
    /// The session's processes.
    pub processes: Vec<ListedProcess>,
}

/// One process of [`ListResult`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedProcess {
    /// Its name in the session.
    pub process_id: String,
    /// Who it is on the daemon's machine.
    pub identity: String,
    /// Its program.
    pub program: String,
    /// How long it has been there, in milliseconds.
    pub age_ms: u64,
    /// Whether its main process has exited.
    pub exited: bool,
}

/// Result of `process/survivors`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorsResult {
    /// What is alive.
    #[serde(default)]
    pub alive: Vec<WireRemnant>,
}
