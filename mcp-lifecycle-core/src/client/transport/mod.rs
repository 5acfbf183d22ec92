//! Newline-delimited JSON-RPC over a server's byte streams, as an rmcp transport.
//!
//! rmcp's own holds a lock across a blocked write, sends each message from its own task, and drops
//! what it cannot read: a server that does not read its input blocks `close` and every timeout,
//! messages overtake each other, and an oversized answer hangs its call. This one queues
//! synchronously in a bounded queue, reads without a buffer of its own while idle, fails the call
//! whose answer cannot be used, and never writes to the server by itself.

mod answer;
pub(crate) mod connection;
pub(crate) mod decode;
pub(crate) mod lines;
pub(crate) mod outbox;
mod pending;
pub(crate) mod progress;
pub(crate) mod stdio;

use crate::launch::macros::settings;

/// Limits of the byte streams between the host and one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportLimits {
    /// The longest message accepted from the server, in bytes. 16 MiB by
    /// default, as in rmcp; the specification sets no limit.
    pub max_message: usize,
    /// The longest queue to a server that does not read, in bytes. 16 MiB by default. A larger
    /// message is accepted if nothing is queued.
    pub max_queue: usize,
    /// The number of stderr lines that are kept for reports. 20 by default.
    pub stderr_lines: usize,
    /// The longest line of stderr, in bytes; longer ones are cut off. 4 KiB by default.
    pub stderr_line: usize,
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            max_message: 16 * 1024 * 1024,
            max_queue: 16 * 1024 * 1024,
            stderr_lines: 20,
            stderr_line: 4096,
        }
    }
}

settings!(TransportLimits {
    max_message: usize,
    max_queue: usize,
    stderr_lines: usize,
    stderr_line: usize,
});
