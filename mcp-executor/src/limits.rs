use std::time::Duration;

use mcp_lifecycle_core::terminate::TerminationPolicy;

/// Maximum length of a client's name for a request, a process or a write, in bytes.
pub(super) const MOST_NAME: usize = 256;

pub(super) const MOST_WAITING: usize = 1024;

pub(super) const WAITING_EACH: usize = 1024;

pub(super) const MOST_LAUNCHES: usize = 16;

/// Maximum size of `process/start`: no system accepts more arguments and variables.
pub(super) const MOST_START: usize = 8 << 20;

pub(super) const MOST_BEFORE_SESSION: usize = 64 * 1024;

/// The daemon's limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The largest frame, in bytes. 16 MiB by default.
    pub max_frame: usize,
    /// Limit of sessions, attached or not. 256 by default. Each has a place for its connection, so
    /// that a client can reconnect. Each token has an equal part.
    pub max_sessions: usize,
    /// Limit of processes per session. 1024 by default.
    pub max_processes: usize,
    /// Limit of processes of all sessions. 4096 by default. Each token has an equal part.
    pub max_processes_in_all: usize,
    /// Limit of memory in bytes that the clients of one token use for frames, input, output and
    /// waiting requests. 36 MiB by default. More is delayed, or refused as a limit.
    pub max_memory: usize,
    /// The part of it that one session may use: 18 MiB by default. 128 KiB are guaranteed.
    pub max_memory_per_session: usize,
    /// Limit of frames per second of one token's clients: 100,000 by default. More are delayed.
    pub max_frames_per_second: u32,
    /// Limit of frames per second of one session: 50,000 by default.
    pub max_frames_per_session_and_second: u32,
    /// Bytes of one output stream that are read ahead of the client. 256 KiB by default; a client
    /// may request less, or up to four times as much.
    pub window: usize,
    /// Limit of queued input per process in bytes. 1 MiB by default, plus one frame.
    pub stdin_queue: usize,
    /// The silence of a client after which its processes are ended. 30 s by default; a client may
    /// request less, or up to ten times as much.
    pub lease: Duration,
    /// Time limit for a connection to get a session, including TLS. 10 s by default.
    pub handshake: Duration,
    /// Time for which the output of an ended process is kept for a plain client: 30 s by default.
    /// Our client acknowledges output.
    pub retention: Duration,
    /// The graces of processes with a lost client: 300 ms after the end of their input and 300 ms
    /// after SIGTERM by default.
    pub orphans: TerminationPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 16 << 20,
            max_sessions: 256,
            max_processes: 1024,
            max_processes_in_all: 4096,
            max_memory: 36 << 20,
            max_memory_per_session: 18 << 20,
            max_frames_per_second: 100_000,
            max_frames_per_session_and_second: 50_000,
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
