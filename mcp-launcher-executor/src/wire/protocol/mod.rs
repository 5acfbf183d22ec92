//! The wire protocol of codex's `exec-server`, and our extensions to it.
//!
//! Pure data: no I/O, no clock. The framing (one message per WebSocket frame,
//! or per line) is in the transports.
//!
//! The protocol is JSON-RPC 2.0 without the `jsonrpc` field, in camelCase, with
//! bytes as padded base64. It has no version number; what is written here was
//! checked against `codex exec-server` 0.169 and is tolerant of what older ones
//! leave out (see `docs/executor.md`).
//!
//! Extensions are negotiated in `initialize`: the client names
//! [`Extensions`](extension::Extensions), a peer that knows them answers in
//! kind, and every other peer ignores an unknown field.

pub mod extension;
pub mod process;

mod bounded;
mod chunk;
mod encode;
mod error;
mod handshake;
mod message;
mod raw;
mod uri;

pub use chunk::Chunk;
pub use encode::{encode_error, encode_notification, encode_output, encode_request, encode_result};
pub use error::{RpcError, code};
pub use handshake::{Capabilities, EnvironmentInfo, InitializeParams, InitializeResult, Shell};
pub use message::{MalformedMessage, Message, Params, RequestId};
pub use raw::{RawOutput, encode_raw_output};
pub use uri::{path_from_wire, path_to_uri};

pub mod method {
    pub const INITIALIZE: &str = "initialize";
    pub const INITIALIZED: &str = "initialized";
    pub const START: &str = "process/start";
    pub const READ: &str = "process/read";
    pub const WRITE: &str = "process/write";
    pub const SIGNAL: &str = "process/signal";
    pub const TERMINATE: &str = "process/terminate";
    pub const ENVIRONMENT_INFO: &str = "environment/info";
    pub const ENVIRONMENT_STATUS: &str = "environment/status";
    pub const GET_METADATA: &str = "fs/getMetadata";
    pub const OUTPUT: &str = "process/output";
    pub const EXITED: &str = "process/exited";
    /// Notification from the server: exited, and both streams are at their end.
    pub const CLOSED: &str = "process/closed";

    pub const CLOSE_STDIN: &str = "process/closeStdin";
    pub const SURVIVORS: &str = "process/survivors";
    /// Extension, notification from the server: nothing of it is left.
    pub const GONE: &str = "process/gone";
    /// Extension, notification from the client: what it has received and consumed.
    pub const ACK: &str = "process/ack";
    pub const PING: &str = "session/ping";
    /// Extension, notification from the server: it ends the session, and with it
    /// every process.
    pub const ENDED: &str = "session/ended";
    /// Extension, notification from the client: it is leaving for good.
    pub const END: &str = "session/end";
}
