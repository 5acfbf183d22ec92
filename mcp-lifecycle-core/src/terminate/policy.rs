//! The longest time each step of a server's end may take.

use std::time::Duration;

use crate::launch::setters::setters;

/// The waits of the termination ladder.
///
/// The order is the MCP specification's (2026-07-28, *stdio*, shutdown): close
/// standard input and wait, then end the process by force, on POSIX SIGTERM
/// before SIGKILL. The specification gives no times; these follow the SDKs.
///
/// A server that cooperates ends in about a millisecond, so the graces cost
/// nothing until somebody misbehaves. The longest a termination can take is
/// [`longest`](Self::longest). These are all the clocks there are: a launcher's
/// primitive that is acknowledged late, or never, has the time of its step, and the
/// next step follows when that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationPolicy {
    /// The time calls in flight have to complete before the rest happens.
    /// Zero by default: they are cancelled at once.
    pub drain: Duration,
    /// The longest time queued messages may take to reach the server before its
    /// standard input is closed. 500 ms by default.
    pub flush: Duration,
    /// The time the server has to end after its standard input was closed.
    /// 2 s by default.
    pub eof_grace: Duration,
    /// The time descendants may outlive the main process before they are sent
    /// SIGTERM. 50 ms by default.
    pub straggler_grace: Duration,
    /// The time the server has to end after SIGTERM. 2 s by default.
    pub term_grace: Duration,
    /// The longest time the confirmation may take after SIGKILL. 2 s by default. What
    /// lives longer (a process stuck in the kernel) is an error that names it.
    pub kill_confirmation: Duration,
    /// The longest time the launcher may take to tell what only goes into the report: the exit
    /// status after the proof, or the names of what is still alive. 1 s by default.
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

impl TerminationPolicy {
    /// The default policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// No graces: straight to SIGKILL and its confirmation.
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

    setters! {
        /// Sets how long calls in flight may still complete before the end begins.
        with_drain(drain: Duration);
        /// Sets how long queued messages may take to be written.
        with_flush(flush: Duration);
        /// Sets the wait after standard input was closed; zero skips the step.
        with_eof_grace(eof_grace: Duration);
        /// Sets how long descendants may outlive the main process before SIGTERM.
        with_straggler_grace(straggler_grace: Duration);
        /// Sets the wait after SIGTERM; zero skips the step.
        with_term_grace(term_grace: Duration);
        /// Sets the wait for the proof after SIGKILL.
        with_kill_confirmation(kill_confirmation: Duration);
        /// Sets the wait for what only goes into the report.
        with_report_limit(report_limit: Duration);
    }

    /// The longest that a termination under this policy takes, whatever the server and
    /// the launcher do, and also if it ends without proof. A launcher that blocks the
    /// thread, or a machine without time for this process, is not bounded by anything.
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

    /// The longest that everything but the ladder's rungs takes.
    pub(crate) fn beside_rungs(&self) -> Duration {
        self.drain
            .saturating_add(self.flush)
            .saturating_add(self.report_limit)
    }
}
