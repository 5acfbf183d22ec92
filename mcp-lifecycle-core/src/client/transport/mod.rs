//! Newline-delimited JSON-RPC over a server's byte streams, as an rmcp transport. Unlike rmcp's
//! own, it never waits for a server that does not read, keeps the order of messages, and fails the
//! call whose answer cannot be used.

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
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            max_message: 16 * 1024 * 1024,
            max_queue: 16 * 1024 * 1024,
        }
    }
}

settings!(TransportLimits {
    max_message: usize,
    max_queue: usize,
});
