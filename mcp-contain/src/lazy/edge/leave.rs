//! How this process ends.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, raise};

use super::Edge;
use super::server::{UNPROVEN, signal_of};
use crate::failure::Failure;
use crate::lazy::decision::words::Exit;

/// The least that a host has to read what is left.
const READING: Duration = Duration::from_secs(2);

impl Edge {
    /// Whether there is nothing left to be done: no server, and nothing that somebody reads.
    pub(super) fn is_done(&mut self) -> bool {
        if self.exit.is_none() || self.server.is_some() {
            return false;
        }
        let now = self.now();
        let flush = *self
            .flush
            .get_or_insert(now.saturating_add(self.patience()));
        self.to_host.is_empty() || self.output.is_none() || flush <= now
    }

    /// How long a host may take to read what is left: not less because its server has little time.
    pub(super) fn patience(&self) -> Duration {
        self.policy.grace.max(READING)
    }

    /// The exit code; death by a signal is repeated on this process.
    pub(super) fn leave(&self) -> ExitCode {
        // A host that is gone is told nothing.
        if self.lost > 0 && self.output.is_some() {
            let grace = humantime::format_duration(self.policy.grace);
            Failure::wrapper(format_args!(
                "{} bytes of input are lost: the server did not read them within {grace} of the end of its host, or of what it read last",
                self.lost
            ))
            .say();
        }
        if self.exit == Some(Exit::Unproven) {
            // A shim that says so by its code has said why.
            if self.last.and_then(|status| status.code()) != Some(UNPROVEN) {
                Failure::wrapper(
                    "the shim of the server was killed, and nothing else proves its end: something of it, or its containers, may live. \
                     `mcp-contain ps` and `mcp-contain reap` find it",
                )
                .say();
            }
            return ExitCode::from(125);
        }
        let status = self.last.filter(|_| self.exit == Some(Exit::AsServer));
        let by_signal = status
            .and_then(signal_of)
            .and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = self.killed.filter(|_| status.is_none()).or(by_signal) {
            die_of(signal, &self.mask);
        }
        if self.exit == Some(Exit::OtherVersion) {
            return Failure::wrapper(
                "the server speaks another protocol version than the one that its host was told from the cache, which is \
                 renewed: start it again",
            )
            .report();
        }
        if self.has_failed {
            return ExitCode::from(125);
        }
        let code = status
            .and_then(|status| status.code())
            .and_then(|code| u8::try_from(code).ok());
        match (status, code) {
            (None, _) => ExitCode::SUCCESS,
            (Some(_), code) => ExitCode::from(code.unwrap_or(125)),
        }
    }
}

/// Ends this process as the signal does, without a core file.
fn die_of(by: Signal, mask: &SigSet) {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = mask.thread_unblock();
    let _ = raise(by);
}
