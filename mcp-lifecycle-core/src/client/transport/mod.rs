//! Newline-delimited JSON-RPC over a server's byte streams, as an rmcp transport.
//!
//! rmcp's own transport over byte streams holds a lock across a blocked write,
//! sends each message from a task of its own, and drops what it cannot read. So
//! a server that does not read its input hangs `close` and every timeout,
//! messages overtake each other, and an answer over the limit hangs its call.
//! This one:
//!
//! * **sends in order.** [`Transport::send`] queues synchronously, in a bounded
//!   queue; one writer at a time empties it, as many messages per system call
//!   as are there. A full queue is an error, not a wait.
//! * **reads without a buffer of its own** while idle: input is read into a
//!   buffer that all servers of a thread share, and only a line that arrives in
//!   pieces is kept.
//! * **answers for the server** what the server answered badly: a response over
//!   the limit or that is not JSON-RPC fails its call, if its id can be read.
//!   Everything else that is not JSON-RPC is skipped and counted.
//! * **never writes to the server by itself**, as the 2026-07-28 specification asks.
//!
//! What it does not do: bound the number of notifications in flight inside rmcp,
//! which runs a handler task for each.

mod answer;
pub(crate) mod connection;
pub(crate) mod decode;
pub(crate) mod lines;
pub(crate) mod outbox;
mod pending;
pub(crate) mod progress;
pub(crate) mod stdio;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::launch::setters::setters;

/// Limits of the byte streams between the host and one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportLimits {
    /// The longest message accepted from the server, in bytes. 16 MiB by
    /// default, as in rmcp; the specification sets no limit.
    pub max_message: usize,
    /// The longest queue to a server that does not read, in bytes. 16 MiB
    /// by default. A single larger message is accepted when nothing is queued, so
    /// the memory is bounded by the larger of this and one message.
    pub max_queue: usize,
    /// The number of last lines of standard error that are kept for reports. 20 by default.
    pub stderr_lines: usize,
    /// The longest line of standard error that is kept or observed, in bytes;
    /// the rest of it is cut off. 4 KiB by default.
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

impl TransportLimits {
    /// The default limits.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the longest message accepted from the server, in bytes.
        with_max_message(max_message: usize);
        /// Sets how much may be queued to a server that does not read, in bytes.
        with_max_queue(max_queue: usize);
        /// Sets how many of the last lines of standard error are kept.
        with_stderr_lines(stderr_lines: usize);
        /// Sets the longest line of standard error that is kept or observed, in bytes.
        with_stderr_line(stderr_line: usize);
    }
}

/// Counters of one connection.
#[derive(Debug, Default)]
pub(crate) struct WireCounters {
    pub(crate) skipped_lines: AtomicU64,
    pub(crate) oversized_lines: AtomicU64,
}

/// Counts of what a connection has seen that was not the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireStats {
    /// Lines on standard output that were not JSON-RPC, and were skipped.
    pub skipped_lines: u64,
    /// Lines over the limit, which were discarded.
    pub oversized_lines: u64,
}

impl WireCounters {
    pub(crate) fn snapshot(self: &Arc<Self>) -> WireStats {
        WireStats {
            skipped_lines: self.skipped_lines.load(Ordering::Relaxed),
            oversized_lines: self.oversized_lines.load(Ordering::Relaxed),
        }
    }
}
