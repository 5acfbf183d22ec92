//! [`LifecycleClient`]: the owner of a server and of the connection to it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;

use super::owner::Owner;
use super::peer::LifecyclePeer;
use super::state::ClientState;
use super::transport::WireStats;
use crate::launch::identity::ServerIdentity;
use crate::launch::semantics::TerminationSemantics;
use crate::terminate::handle::TerminationOutcome;
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;

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
    pub(super) peer: LifecyclePeer,
    pub(super) owner: Arc<Owner>,
}

impl LifecycleClient {
    /// The calls of this client, for tasks that use the server without owning it.
    pub fn peer(&self) -> &LifecyclePeer {
        &self.peer
    }

    /// The identity of the server.
    pub fn identity(&self) -> ServerIdentity {
        self.owner.handle().identity()
    }

    /// The steps of an end that the server allows, and their reach.
    pub fn semantics(&self) -> TerminationSemantics {
        self.owner.handle().semantics()
    }

    /// The state of the server, now and as it changes.
    pub fn state(&self) -> watch::Receiver<ClientState> {
        self.owner.state()
    }

    /// Counts the lines of the server that were not the protocol.
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
    /// [`TerminateError`](crate::terminate::TerminateError) names what is still
    /// alive. Calling again tries again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the end; a later call joins it.
    pub async fn shutdown(&self) -> TerminationOutcome {
        self.owner.end(EndReason::Shutdown, None).await
    }

    /// Like [`shutdown`](Self::shutdown), for another reason and with another policy.
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
    #[cfg(feature = "fleet")]
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
