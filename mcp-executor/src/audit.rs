//! The audit log of clients and their processes.
//!
//! Events of the `tracing` target `audit`. They name clients and programs, but hold no argument,
//! variable or token. The daemon's metrics count them.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{ExitStatus, ServerIdentity};
use mcp_lifecycle_core::lock::Lock;
use mcp_lifecycle_core::terminate::EndReason;

use super::metrics::{Counters, count};
use super::origin::Origin;
use crate::protocol::{RpcError, code};

const TARGET: &str = "audit";

pub(super) struct Audit {
    /// A prefix that distinguishes sessions, but is too short to resume one.
    session: String,
    counters: Arc<Counters>,
    client: Lock<(String, String)>,
}

macro_rules! of_process {
    ($audit:expr, $process:expr, $program:expr, $($rest:tt)*) => {{
        let (peer, client) = $audit.client();
        tracing::info!(
            target: TARGET,
            session = $audit.session,
            peer,
            client,
            process = excerpt($process),
            program = excerpt($program),
            $($rest)*
        );
    }};
}

impl Audit {
    pub(super) fn new(session: &str, counters: &Arc<Counters>) -> Arc<Self> {
        Arc::new(Self {
            session: session.get(..8).unwrap_or(session).to_owned(),
            counters: Arc::clone(counters),
            client: Lock::default(),
        })
    }

    fn client(&self) -> (String, String) {
        let client = self.client.lock();
        client.clone()
    }

    pub(super) fn attached(&self, origin: &Origin, name: &str, resumed: bool) {
        let (peer, client) = (origin.to_string(), excerpt(name));
        let session = &self.session;
        tracing::info!(target: TARGET, session, peer, client, resumed, "client attached");
        *self.client.lock() = (peer, client);
    }

    pub(super) fn started(&self, process: &str, program: &str, identity: &ServerIdentity) {
        count(&self.counters.started, 1);
        of_process!(self, process, program, %identity, "process started");
    }

    pub(super) fn not_started(&self, process: &str, program: &str, error: &RpcError) {
        count(&self.counters.not_started, 1);
        // The message would contain the arguments.
        let why = match error.code {
            code::LIMIT => "limit",
            _ => error.kind().unwrap_or("invalid"),
        };
        of_process!(self, process, program, why, "process not started");
    }

    /// Logs that a process has ended, with its whole tree if `proven`.
    pub(super) fn ended(
        &self,
        process: &str,
        program: &str,
        exit: ExitStatus,
        proven: bool,
        ran: Duration,
    ) {
        let Counters { gone, unproven, .. } = &*self.counters;
        count(if proven { gone } else { unproven }, 1);
        let ran_ms = ran.as_millis() as u64;
        of_process!(self, process, program, %exit, proven, ran_ms, "process ended");
    }

    pub(super) fn over(&self, reason: &EndReason, processes: usize) {
        let ((peer, client), session) = (self.client(), &self.session);
        tracing::info!(target: TARGET, session, peer, client, %reason, processes, "session over");
    }
}

pub(super) fn excerpt(text: &str) -> String {
    // Control characters could forge log lines.
    let text = text.chars().take(256);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
