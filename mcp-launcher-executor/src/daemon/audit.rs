//! What an operator wants to know afterwards: who started what, from where.
//!
//! Events of the `tracing` target `audit`. They name clients and programs; they
//! hold no argument, no variable and no token. The daemon's metrics count them.

use std::time::Duration;

use mcp_lifecycle_core::launch::{ExitStatus, ServerIdentity};
use mcp_lifecycle_core::terminate::EndReason;

use super::metrics::count;
use super::origin::Origin;
use super::registry::short;
use super::session::Session;
use crate::protocol::{RpcError, code};

const TARGET: &str = "audit";

/// The longest name or reason in one event, in characters.
const MOST: usize = 256;

/// Who has attached to a session.
pub(super) struct Client {
    /// What it calls itself.
    pub(super) name: String,
    pub(super) origin: Origin,
}

/// The words for a session's client.
fn who(session: &Session) -> (String, String) {
    match session.client() {
        Some(client) => (client.origin.to_string(), excerpt(&client.name)),
        None => Default::default(),
    }
}

pub(super) fn attached(session: &Session, resumed: bool) {
    let (peer, client) = who(session);
    let session = short(&session.id);
    tracing::info!(target: TARGET, session, peer, client, resumed, "client attached");
}

/// An event about a process and its client.
macro_rules! of_process {
    ($session:expr, $process:expr, $program:expr, $($rest:tt)*) => {{
        let (peer, client) = who($session);
        tracing::info!(
            target: TARGET,
            session = short(&$session.id),
            peer,
            client,
            process = $process,
            program = excerpt($program),
            $($rest)*
        );
    }};
}

pub(super) fn started(session: &Session, process: &str, program: &str, identity: &ServerIdentity) {
    count(&session.counters.started, 1);
    of_process!(session, process, program, %identity, "process started");
}

pub(super) fn not_started(session: &Session, process: &str, program: &str, error: &RpcError) {
    count(&session.counters.not_started, 1);
    // Its words have the arguments in them.
    let why = match error.code {
        code::LIMIT => "limit",
        _ => error.kind().unwrap_or("invalid"),
    };
    let process = &excerpt(process);
    of_process!(session, process, program, why, "process not started");
}

/// A process has ended, with all that belonged to it if it is `proven`.
pub(super) fn ended(
    session: &str,
    process: &str,
    program: &str,
    exit: ExitStatus,
    proven: bool,
    ran: Duration,
) {
    tracing::info!(
        target: TARGET,
        session = short(session),
        process,
        program = excerpt(program),
        %exit,
        proven,
        ran_ms = ran.as_millis() as u64,
        "process ended"
    );
}

pub(super) fn over(session: &Session, reason: &EndReason) {
    let (peer, client) = who(session);
    let processes = session.processes().len();
    let session = short(&session.id);
    tracing::info!(target: TARGET, session, peer, client, reason = reason.as_str(), processes, "session over");
}

fn excerpt(text: &str) -> String {
    // No line of a client's looks like one of ours.
    let text = text.chars().take(MOST);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
