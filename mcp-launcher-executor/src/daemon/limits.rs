//! [`Limits`]: what one client may take, and how long it may be silent.

use std::time::Duration;

use mcp_lifecycle_core::terminate::TerminationPolicy;
use tokio::sync::Semaphore;

/// The longest name that a client may give to a request, a process or a write,
/// in bytes.
pub(super) const MOST_NAME: usize = 256;

/// Requests of one session that may wait for something to happen.
pub(super) const MOST_WAITING: usize = 1024;

/// The memory that such a request takes, in bytes, about.
pub(super) const WAITING_EACH: usize = 1024;

/// Launches of one session that go on at once; others wait.
pub(super) const MOST_LAUNCHES: usize = 16;

/// The largest `process/start`: no system takes more arguments and variables.
pub(super) const MOST_START: usize = 8 << 20;

/// The largest frame of a client that has no session yet.
pub(super) const MOST_BEFORE_SESSION: usize = 64 * 1024;

/// The daemon's limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The largest frame, in bytes. 16 MiB by default.
    pub max_frame: usize,
    /// Sessions at once, attached or not. 256 by default. Each has a place for its
    /// connection: a client that lost it finds one.
    pub max_sessions: usize,
    /// Sessions at once of clients that are one share: all who show one token, where a
    /// listener has several; else all of one address, or of one user of this machine.
    /// 192 by default: some are left for the others. Of several tokens, each has no more
    /// than its part of `max_sessions`.
    pub max_sessions_per_share: usize,
    /// Processes of one session. 1024 by default.
    pub max_processes: usize,
    /// Processes of clients that are one share. 3072 by default; of several tokens, each
    /// has no more than its part of `max_processes_in_all`.
    pub max_processes_per_share: usize,
    /// Processes of all sessions. 4096 by default.
    pub max_processes_in_all: usize,
    /// Bytes that clients' frames, input, output and waiting requests may take in
    /// memory, all together: 36 MiB by default, beside 128 KiB of each session. A
    /// client gets as much again as is free; what is more is held back, or refused
    /// as a limit.
    pub max_memory: usize,
    /// Bytes of one output stream that are read ahead of the client. 256 KiB
    /// by default; a client may ask for less, or for more up to four times it.
    pub window: usize,
    /// Bytes of input that wait for one process. 1 MiB by default, and one
    /// frame more.
    pub stdin_queue: usize,
    /// The silence of a client after which its processes are ended. 30 s
    /// by default; a client may ask for less, or for more up to ten times it.
    pub lease: Duration,
    /// The time that a connection has to get a session, with TLS and all. 10 s by
    /// default.
    pub handshake: Duration,
    /// The time for which the output of a process that has ended is kept for a plain
    /// client: 30 s by default. One of ours tells what it has.
    pub retention: Duration,
    /// The graces of processes whose client has gone: 300 ms after the
    /// end of their input and 300 ms after SIGTERM by default.
    pub orphans: TerminationPolicy,
}

/// The sessions and processes that the clients of one share may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) sessions: usize,
    pub(super) processes: usize,
}

impl Limits {
    /// Tells what each share may have where there are so many tokens: no less is left
    /// for any of them.
    pub(super) fn allowance(&self, tokens: usize) -> Allowance {
        let part = |most: usize, all: usize| most.min((all / tokens.max(1)).max(1));
        let processes = part(self.max_processes_per_share, self.max_processes_in_all);
        Allowance {
            sessions: part(self.max_sessions_per_share, self.max_sessions),
            processes: processes.min(Semaphore::MAX_PERMITS),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 16 << 20,
            max_sessions: 256,
            max_sessions_per_share: 192,
            max_processes: 1024,
            max_processes_per_share: 3072,
            max_processes_in_all: 4096,
            max_memory: 36 << 20,
            window: 256 << 10,
            stdin_queue: 1 << 20,
            lease: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            retention: Duration::from_secs(30),
            orphans: TerminationPolicy::default()
                .with_eof_grace(Duration::from_millis(300))
                .with_term_grace(Duration::from_millis(300)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_tokens_take_leaves_each_other_one_as_much() {
        let limits = Limits::default();
        let of = |tokens| {
            let Allowance {
                sessions,
                processes,
            } = limits.allowance(tokens);
            (sessions, processes)
        };
        assert_eq!(of(0), (192, 3072));
        assert_eq!(of(1), (192, 3072));
        assert_eq!(of(3), (85, 1365));
        assert_eq!(of(10_000), (1, 1));
    }

    #[test]
    fn no_limit_is_more_than_can_be_counted() {
        let most = usize::MAX;
        let limits = Limits {
            max_processes_per_share: most,
            max_processes_in_all: most,
            ..Limits::default()
        };
        assert_eq!(limits.allowance(1).processes, Semaphore::MAX_PERMITS);
        let launcher = std::sync::Arc::new(mcp_launcher_local::LocalLauncher::new());
        let _ = super::super::Daemon::new(launcher, limits);
    }
}
