//! [`ServerTransport`]: a server under a service loop of the application's own.

use std::io;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::config::PROBE_TIMEOUT;
use super::event::Observed;
use super::stderr::{self, StderrTail};
use super::transport::TransportLimits;
use super::transport::stdio::{Connection, StdioTransport};
use crate::launch::identity::ServerIdentity;
use crate::launch::launched::LaunchedServer;
use crate::terminate::handle::{ServerHandle, TerminationOutcome};
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;
use crate::terminate::timing::EXIT_AFTER_OUTPUT;

/// An rmcp [`Transport`] that owns its server: for an application that calls
/// [`serve`](rmcp::ServiceExt::serve) itself, in the place of rmcp's `TokioChildProcess`.
/// docs/moving-from-tokio-child-process.md shows both side by side.
///
/// rmcp closes the transport when its service is cancelled, or dropped, or when the
/// server's output ends. The server is then ended in order, by the
/// [policy](Self::with_policy), and [`outcome`](Self::outcome) has the proof.
///
/// Not included, compared with [`LifecycleClient`](crate::LifecycleClient): typed errors of
/// calls, events, and requests that are drained before the end.
///
/// ```no_run
/// # use mcp_lifecycle_core::client::ServerTransport;
/// # use mcp_lifecycle_core::launch::LaunchedServer;
/// use mcp_lifecycle_core::rmcp::ServiceExt;
///
/// # async fn example(launched: LaunchedServer) -> Result<(), Box<dyn std::error::Error>> {
/// let transport = ServerTransport::new("files", launched);
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
/// Kills the server synchronously, unless it is being ended already.
#[derive(Debug)]
pub struct ServerTransport {
    stdio: StdioTransport,
    wire: Arc<Connection>,
    writer: JoinHandle<()>,
    handle: Arc<ServerHandle>,
    policy: TerminationPolicy,
    /// Cancelled when the end has begun.
    ending: CancellationToken,
}

impl ServerTransport {
    /// Takes over a server. Its standard error is read to its end, and logged at `DEBUG`.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn new(server: impl Into<String>, launched: LaunchedServer) -> Self {
        let server = server.into();
        let limits = TransportLimits::new();
        let (handle, streams) = launched.into_handle(server.clone());
        let wire = Connection::new(streams.stdin, streams.stdout, &limits);
        let writer = tokio::spawn(Arc::clone(&wire.outbox).write_all());
        if let Some(io) = streams.stderr {
            let observed = Observed::by_nobody(&server);
            let tail = StderrTail::new(&limits);
            tokio::spawn(stderr::drain(io, tail, observed, limits.stderr_line));
        }
        let (exit, exited) = (handle.watch_exit(), wire.exited.clone());
        tokio::spawn(async move {
            exit.await;
            exited.cancel();
        });
        Self {
            stdio: StdioTransport::new(Arc::clone(&wire), &limits, Some(PROBE_TIMEOUT)),
            wire,
            writer,
            handle: Arc::new(handle),
            policy: TerminationPolicy::default(),
            ending: CancellationToken::new(),
        }
    }

    /// Sets how the server is ended.
    #[must_use]
    pub fn with_policy(mut self, policy: TerminationPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The identity of the server.
    pub fn identity(&self) -> ServerIdentity {
        self.handle.identity()
    }

    /// A future of the server's end: the proof, or the error that names what is left. It
    /// begins nothing by itself, and keeps no server alive.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn outcome(&self) -> impl Future<Output = TerminationOutcome> + Send + use<> {
        let (handle, ending) = (Arc::clone(&self.handle), self.ending.clone());
        let policy = self.policy.clone();
        async move {
            ending.cancelled().await;
            // Joins the run that was begun, or has its report.
            handle.terminate(&policy, EndReason::Shutdown).await
        }
    }

    async fn reason(&self) -> EndReason {
        let exited = self.wire.exited.cancelled();
        if !self.wire.output_ended.is_cancelled() {
            EndReason::Shutdown
        } else if timeout(EXIT_AFTER_OUTPUT, exited).await.is_ok() {
            EndReason::ServerExited
        } else {
            EndReason::OutputClosed
        }
    }
}

impl Transport<RoleClient> for ServerTransport {
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
    async fn close(&mut self) -> io::Result<()> {
        let reason = self.reason().await;
        self.wire.cancel_all_and_close(reason.as_str());
        if reason == EndReason::Shutdown && !self.wire.outbox.is_empty() {
            let _ = timeout(self.policy.flush, &mut self.writer).await;
        }
        // The end has a task of its own, which outlives this future.
        self.handle.begin_termination(&self.policy, reason.clone());
        self.ending.cancel();
        let mut end = std::pin::pin!(self.handle.terminate(&self.policy, reason));
        let outcome = tokio::select! {
            outcome = &mut end => outcome,
            () = self.wire.drain_output() => end.await,
        };
        outcome.map(drop).map_err(io::Error::other)
    }
}

impl Drop for ServerTransport {
    fn drop(&mut self) {
        if !self.ending.is_cancelled() {
            self.handle.kill_now();
            self.handle
                .begin_termination(&TerminationPolicy::immediate(), EndReason::OwnerDropped);
            self.ending.cancel();
        }
    }
}
