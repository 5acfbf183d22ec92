//! [`Limits`]: what one client may take, and how long it may be silent.

use std::time::Duration;

use mcp_lifecycle_core::TerminationPolicy;

/// The longest name that a client may give to a request, a process or a write,
/// in bytes.
pub(super) const MOST_NAME: usize = 256;

/// Requests of one session that may wait for something to happen.
pub(super) const MOST_WAITING: usize = 1024;

/// The daemon's limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The largest frame, in bytes. 16 MiB by default.
    pub max_frame: usize,
    /// Connections at once. 256 by default.
    pub max_connections: usize,
    /// Sessions at once, attached or not. 256 by default.
    pub max_sessions: usize,
    /// Processes of one session. 1024 by default.
    pub max_processes: usize,
    /// Bytes of one output stream that are read ahead of the client. 256 KiB
    /// by default; a client may ask for less, or for more up to four times it.
    pub window: usize,
    /// Bytes of input that wait for one process. 1 MiB by default, and one
    /// frame more.
    pub stdin_queue: usize,
    /// How long a client may be silent before its processes are ended. 30 s
    /// by default; a client may ask for less, or for more up to ten times it.
    pub lease: Duration,
    /// How long a connection may take until it has a session. 10 s by default.
    pub handshake: Duration,
    /// How long the output of a process that has ended is kept for a plain
    /// client: 30 s by default. One of ours tells what it has.
    pub retention: Duration,
    /// How processes are ended when their client has gone: 300 ms after the
    /// end of their input and 300 ms after SIGTERM by default.
    pub orphans: TerminationPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 16 << 20,
            max_connections: 256,
            max_sessions: 256,
            max_processes: 1024,
            window: 256 << 10,
            stdin_queue: 1 << 20,
            lease: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            retention: Duration::from_secs(30),
            orphans: TerminationPolicy::default()
                .eof_grace(Duration::from_millis(300))
                .term_grace(Duration::from_millis(300)),
        }
    }
}
