use std::io;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::TransportLimits;
use super::config::PROBE_TIMEOUT;
use super::event::Observed;
use super::session::Session;
use super::transport::stdio::StdioTransport;
use crate::launch::macros::debug_fields;
use crate::launch::{LaunchedServer, ServerIdentity};
use crate::terminate::{EndReason, ServerHandle, TerminationOutcome, TerminationPolicy};

/// An rmcp [`Transport`] that owns its server: for an application that calls
/// [`serve`](rmcp::ServiceExt::serve) itself, in the place of rmcp's `TokioChildProcess`.
/// docs/moving-from-tokio-child-process.md shows both side by side.
///
/// rmcp closes the transport when its service is cancelled, or dropped, or when the server's output
/// ends. The server is then ended in order, by the [policy](Self::policy), and
/// [`outcome`](Self::outcome) has the proof. Calls are rmcp's own: without typed errors, events, and
/// draining.
///
/// ```no_run
/// # use mcp_lifecycle_core::client::OwnedTransport;
/// # use mcp_lifecycle_core::launch::LaunchedServer;
/// use mcp_lifecycle_core::rmcp::ServiceExt;
///
/// # async fn example(launched: LaunchedServer) -> Result<(), Box<dyn std::error::Error>> {
/// let transport = OwnedTransport::new("files", launched);
/// let outcome = transport.outcome();
/// let service = ().serve(transport).await?;
/// println!("{:?}", service.list_all_tools().await?);
/// service.cancel().await?;
/// println!("{}", outcome.await?);
/// # Ok(()) }
/// ```
///
/// # Drop
///
/// Kills the server synchronously, unless [`close`](Transport::close) was called: then its
/// end goes on by itself.
pub struct OwnedTransport {
    stdio: StdioTransport,
    session: Arc<Session>,
    handle: ServerHandle,
}

impl OwnedTransport {
    /// Takes over a server. Its stderr is drained and logged at `DEBUG`.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn new(server: impl Into<String>, launched: LaunchedServer) -> Self {
        let limits = TransportLimits::new();
        let observed = Observed::standalone(&server.into());
        let policy = TerminationPolicy::default();
        let (session, handle) = Session::open(launched, observed, Arc::new(()), &limits, policy);
        Self {
            stdio: StdioTransport::new(Arc::clone(&session.wire), &limits, Some(PROBE_TIMEOUT)),
            session,
            handle,
        }
    }

    /// Sets the policy of the server's end.
    #[must_use]
    pub fn policy(self, policy: TerminationPolicy) -> Self {
        self.session.set_policy(policy);
        self
    }

    /// Returns the server's identity.
    pub fn identity(&self) -> ServerIdentity {
        self.handle.identity()
    }

    /// Returns a future of the server's end, which begins nothing and keeps no server alive. A failed
    /// end is not retried; dropping the transport kills once more. Cancel safe.
    ///
    /// The outcome is an error where the end is not proven, or its task was lost with its runtime.
    pub fn outcome(&self) -> impl Future<Output = TerminationOutcome> + Send + use<> {
        let lost = self.handle.lost(EndReason::OwnerDropped);
        let outcome = self.handle.outcome();
        async { outcome.await.unwrap_or(Err(lost)) }
    }
}

impl Transport<RoleClient> for OwnedTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let queued = self.stdio.send(item);
        async { queued.await.map_err(io::Error::other) }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.stdio.receive()
    }

    /// Ends the server and waits for the proof. Dropping the future does not stop the end.
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        // A server that closed its output is ended by its watcher, which finds the reason.
        if !self.session.wire.output_ended.is_cancelled() {
            let policy = self.session.policy();
            self.handle.begin_termination(&policy, EndReason::Shutdown);
        }
        let outcome = self.outcome();
        async { outcome.await.map(drop).map_err(io::Error::other) }
    }
}

debug_fields!(OwnedTransport, it { handle: &it.handle });
