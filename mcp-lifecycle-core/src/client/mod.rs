//! [`LifecycleClient`]: an MCP client that owns its server.
//!
//! ```text
//!  start ──▶ Starting ──▶ Ready ──▶ Ending ──▶ Ended
//!               │           │          ▲          │
//!               │           └──────────┘          └─ proven, or an error that
//!               │      shutdown, drop, the           names what is left
//!               │      server's own exit
//!               └─ StartError, after the end of whatever had been started
//! ```
//!
//! The client is the one owner. [`LifecyclePeer`], which makes the calls, is
//! cheap to clone and keeps nothing alive: when the client shuts down or is
//! dropped, every peer's calls fail at once and say why.
//!
//! Not guaranteed: calls are not replayed, neither here nor anywhere in this
//! crate, because only the caller knows whether a tool may run twice.

mod builder;
mod call;
mod end;
mod era;
mod handler;
mod handshake;
mod input;
mod peer;
mod session;
mod start;
mod state;
mod stderr;
mod watcher;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;

pub use builder::LifecycleClientBuilder;
pub use call::CallOptions;
pub use era::{Era, ProtocolPreference};
pub use peer::LifecyclePeer;
pub(crate) use start::StartAttempt;
pub use state::ClientState;

use crate::error::StartError;
use crate::transport::WireStats;
use crate::{
    EndReason, ServerIdentity, ServerLauncher, ServerSpec, TerminationOutcome, TerminationPolicy,
    TerminationSemantics,
};
use end::Owner;

/// An MCP client and the server it started.
///
/// Dereferences to its [`LifecyclePeer`] for calls.
///
/// # Drop
///
/// Dropping the client without [`shutdown`](Self::shutdown) kills the server
/// synchronously, in any context, and fails calls in flight. Prefer `shutdown`:
/// it ends the server in order and returns the proof.
pub struct LifecycleClient {
    peer: LifecyclePeer,
    owner: Arc<Owner>,
}

impl LifecycleClient {
    /// Starts a server with the default settings.
    ///
    /// # Errors
    ///
    /// See [`LifecycleClientBuilder::start`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing of the server behind.
    pub async fn start(
        launcher: Arc<dyn ServerLauncher>,
        spec: ServerSpec,
    ) -> Result<Self, StartError> {
        Self::builder(launcher, spec).start().await
    }

    /// Starts to describe a client.
    pub fn builder(launcher: Arc<dyn ServerLauncher>, spec: ServerSpec) -> LifecycleClientBuilder {
        LifecycleClientBuilder::new(launcher, spec)
    }

    /// The calls of this client, for tasks that use the server without owning it.
    pub fn peer(&self) -> &LifecyclePeer {
        &self.peer
    }

    /// Who the server is.
    pub fn identity(&self) -> ServerIdentity {
        self.owner.handle().identity()
    }

    /// What can be done to the server.
    pub fn semantics(&self) -> TerminationSemantics {
        self.owner.handle().semantics()
    }

    /// The state of the server, now and as it changes.
    pub fn state(&self) -> watch::Receiver<ClientState> {
        self.owner.state()
    }

    /// What the server wrote that was not the protocol.
    pub fn wire_stats(&self) -> WireStats {
        self.peer.session().wire.counters.snapshot()
    }

    /// The last lines the server wrote to standard error.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.peer.session().stderr.tail()
    }

    /// Ends the server in the order of the specification and returns the proof.
    ///
    /// New calls are refused, calls in flight are cancelled (the server is told)
    /// and fail, standard input is closed, then the server is asked and at last
    /// forced to end; its output is read throughout. Every wait is bounded by
    /// the client's [`TerminationPolicy`]. Concurrent and repeated calls share
    /// one run and get the same report.
    ///
    /// # Errors
    ///
    /// [`TerminateError`](crate::error::TerminateError) names what is still
    /// alive. Calling again tries again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the end; a later call joins it.
    pub async fn shutdown(&self) -> TerminationOutcome {
        self.owner.end(EndReason::Shutdown, None).await
    }

    /// Like [`shutdown`](Self::shutdown), for a reason and with a policy of its own.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// As [`shutdown`](Self::shutdown).
    pub async fn shutdown_with(
        &self,
        reason: EndReason,
        policy: TerminationPolicy,
    ) -> TerminationOutcome {
        self.owner.end(reason, Some(policy)).await
    }

    /// Begins the end of the server without waiting for it; see
    /// [`shutdown_with`](Self::shutdown_with). [`ended`](Self::ended) tells the
    /// outcome.
    pub fn begin_shutdown(&self, reason: EndReason, policy: TerminationPolicy) {
        self.owner.begin_end(reason, Some(policy));
    }

    /// Why the server ends or has ended, if it does.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        let state = self.owner.state();
        state
            .borrow()
            .end_reason()
            .map(|(reason, _)| reason.clone())
    }

    /// Waits until the server has ended, for whatever reason, without ending it.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> TerminationOutcome {
        self.owner.ended().await
    }

    /// Completes when the launcher can prove that the server is gone; never, if it
    /// says that it cannot.
    pub(crate) async fn provable(&self) {
        self.owner.handle().provable().await;
    }

    /// The last resort: kills the server synchronously. An end that is under
    /// way, or the watch over the server's exit, completes with the proof.
    pub fn kill_now(&self) {
        self.owner.handle().kill_now();
    }
}

impl Deref for LifecycleClient {
    type Target = LifecyclePeer;

    fn deref(&self) -> &LifecyclePeer {
        &self.peer
    }
}

impl Drop for LifecycleClient {
    fn drop(&mut self) {
        self.owner.abandon();
    }
}

impl fmt::Debug for LifecycleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecycleClient")
            .field("server", &self.peer.server())
            .field("identity", &self.identity())
            .field("state", &*self.owner.state().borrow())
            .finish_non_exhaustive()
    }
}
