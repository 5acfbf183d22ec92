use std::time::Duration;

use crate::launch::macros::settings;

/// The waits of the termination ladder.
///
/// The order is the MCP specification's (2026-07-28, *stdio*, shutdown), which gives no times; these
/// follow the SDKs. There are no other clocks: a launcher's primitive that is acknowledged late or
/// never has the time of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationPolicy {
    /// The time in which calls in flight may complete before the end begins. Zero by default: they
    /// are cancelled at once.
    pub drain: Duration,
    /// The longest time to write queued messages before stdin is closed. 500 ms by default.
    pub flush: Duration,
    /// The time the server has to end after stdin was closed; zero skips the step. 2 s by default.
    pub eof_grace: Duration,
    /// The time descendants may outlive the main process before SIGTERM. 50 ms by default.
    pub straggler_grace: Duration,
    /// The time the server has to end after SIGTERM; zero skips the step. 2 s by default.
    pub term_grace: Duration,
    /// The longest time from SIGKILL to its confirmation. 2 s by default. A process that lives
    /// longer (stuck in the kernel) is an error that names it.
    pub kill_confirmation: Duration,
    /// The longest time for data of the report: the exit status after the proof, or the names of
    /// survivors. 1 s by default.
    pub report_limit: Duration,
}

impl Default for TerminationPolicy {
    fn default() -> Self {
        Self {
            drain: Duration::ZERO,
            flush: Duration::from_millis(500),
            eof_grace: Duration::from_secs(2),
            straggler_grace: Duration::from_millis(50),
            term_grace: Duration::from_secs(2),
            kill_confirmation: Duration::from_secs(2),
            report_limit: Duration::from_secs(1),
        }
    }
}

settings!(TerminationPolicy {
    drain: Duration,
    flush: Duration,
    eof_grace: Duration,
    straggler_grace: Duration,
    term_grace: Duration,
    kill_confirmation: Duration,
    report_limit: Duration,
});

impl TerminationPolicy {
    /// Returns a policy without graces: straight to SIGKILL and its confirmation.
    pub fn immediate() -> Self {
        Self {
            drain: Duration::ZERO,
            flush: Duration::ZERO,
            eof_grace: Duration::ZERO,
            straggler_grace: Duration::ZERO,
            term_grace: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Returns the longest time of a termination under this policy, with or without proof. Not
    /// bounded are a launcher that blocks the thread, and a machine that does not schedule this
    /// process.
    pub fn longest(&self) -> Duration {
        [
            self.eof_grace,
            self.straggler_grace,
            self.term_grace,
            self.kill_confirmation,
        ]
        .into_iter()
        .fold(self.beside_rungs(), Duration::saturating_add)
    }

    pub(crate) fn beside_rungs(&self) -> Duration {
        self.drain
            .saturating_add(self.flush)
            .saturating_add(self.report_limit)
    }
}
