//! The `process/*` methods of the base protocol.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::extension::GoneNotification;
use super::{Chunk, bounded};

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    pub process_id: String,
    #[serde(deserialize_with = "bounded::strings::<_, {bounded::ARGUMENTS}>")]
    pub argv: Vec<String>,
    /// The working directory: a `file:` URI, or a path in the old dialect.
    pub cwd: String,
    /// Variables that are set, whatever the policy says.
    #[serde(
        default,
        deserialize_with = "bounded::variables::<_, {bounded::VARIABLES}>"
    )]
    pub env: BTreeMap<String, String>,
    /// The policy for what is inherited besides; exactly `env` without it.
    pub env_policy: Option<EnvPolicy>,
    #[serde(default)]
    pub tty: bool,
    /// True if standard input is a pipe; it is `/dev/null` otherwise.
    #[serde(default)]
    pub pipe_stdin: bool,
    pub arg0: Option<String>,
}

// Neither arguments nor values of the environment.
mcp_lifecycle_core::debug_fields! { StartParams, it {
    process_id: &it.process_id,
    program: &it.argv.first(),
    cwd: &it.cwd,
    env: &it.env.keys(),
} }

/// A policy for what of the executor's own environment a process sees.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EnvPolicy {
    pub inherit: Inherit,
    pub ignore_default_excludes: bool,
    #[serde(deserialize_with = "bounded::strings::<_, {bounded::PATTERNS}>")]
    pub exclude: Vec<String>,
    #[serde(deserialize_with = "bounded::variables::<_, {bounded::VARIABLES}>")]
    pub set: BTreeMap<String, String>,
    /// If not empty, only names that match one of these stay.
    #[serde(deserialize_with = "bounded::strings::<_, {bounded::PATTERNS}>")]
    pub include_only: Vec<String>,
}

mcp_lifecycle_core::debug_fields! { EnvPolicy, it { inherit: &it.inherit, set: &it.set.keys() } }

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inherit {
    /// Variables that programs need to run at all.
    Core,
    #[default]
    All,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    pub process_id: String,
    pub sandbox_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessParams {
    pub process_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    pub process_id: String,
    /// The number after which output is wanted; from the start if absent.
    pub after_seq: Option<u64>,
    /// Stop after this many bytes, but return at least one chunk.
    pub max_bytes: Option<u64>,
    /// Wait this long for something to return, in milliseconds.
    pub wait_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadResult {
    pub chunks: Vec<ReadChunk>,
    /// One after the last chunk, or the next number there will be.
    pub next_seq: u64,
    pub exited: bool,
    pub exit_code: Option<i64>,
    /// Exited, and both streams are at their end.
    pub closed: bool,
    pub failure: Option<String>,
    pub sandbox_denied: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadChunk {
    pub seq: u64,
    pub stream: Stream,
    pub chunk: Chunk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Stdout,
    Stderr,
    Pty,
}

impl Stream {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Pty => "pty",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    pub process_id: String,
    pub chunk: Chunk,
    /// Makes a repetition harmless. Older clients send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    pub status: WriteStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    Accepted,
    UnknownProcess,
    StdinClosed,
    Starting,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    pub process_id: String,
    /// The signal to send: `terminate` is our extension, SIGTERM to the whole tree.
    pub signal: String,
    /// Extension: grows with each signal to a process. One that was carried out is not
    /// carried out again, so that a repetition after a resume is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateResult {
    #[serde(default)]
    pub running: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputNotification {
    pub process_id: String,
    pub seq: u64,
    pub stream: Stream,
    pub chunk: Chunk,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitedNotification {
    pub process_id: String,
    pub seq: u64,
    /// 128 + n for signal n; -1 when it is not known.
    pub exit_code: Option<i64>,
    pub sandbox_denied: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedNotification {
    pub process_id: String,
    /// The event's number in the order of the process's events. Old servers leave it out; it is then
    /// the last of all.
    pub seq: Option<u64>,
}

/// An event in the order of a process's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    Output(Stream, Bytes),
    Exited(Option<i64>),
    Closed,
    Gone(GoneNotification),
}

impl ProcessEvent {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Output(_, bytes) => bytes.len(),
            _ => 0,
        }
    }
}
