//! [`ServerTransport`]: a server under a service loop of the application's own.

use std::io;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::config::PROBE_TIMEOUT;
use super::event::Observed;
use super::stderr::{self, StderrTail};
use super::transport::TransportLimits;
use super::transport::connection::Connection;
use super::transport::stdio::StdioTransport;
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
/// Kills the server synchronously, unless [`close`](Transport::close) was called: then its
/// end goes on by itself.
#[derive(Debug)]
pub struct ServerTransport {
    stdio: StdioTransport,
    server: Arc<Server>,
    policy: TerminationPolicy,
    /// The end that has not begun yet.
    end: Option<End>,
    runtime: Handle,
}

/// State that the transport shares with the end of its server.
#[derive(Debug)]
struct Server {
    connection: Arc<Connection>,
    handle: ServerHandle,
    outcome: watch::Sender<Option<TerminationOutcome>>,
}

impl ServerTransport {
    /// Takes over a server. Its standard error is read to its end, and logged at `DEBUG`.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn new(server: impl Into<String>, launched: LaunchedServer) -> Self {
        let name = server.into();
        let limits = TransportLimits::new();
        let (handle, streams) = launched.into_handle(name.clone());
        let connection = Connection::new(streams.stdin, streams.stdout, &limits);
        if let Some(io) = streams.stderr {
            let observed = Observed::by_nobody(&name);
            let tail = StderrTail::new(&limits);
            tokio::spawn(stderr::drain(io, tail, observed, limits.stderr_line));
        }
        let (exit, exited) = (handle.watch_exit(), connection.exited.clone());
        tokio::spawn(async move {
            exit.await;
            exited.cancel();
        });
        let server = Arc::new(Server {
            connection: Arc::clone(&connection),
            handle,
            outcome: watch::Sender::new(None),
        });
        Self {
            end: Some(End {
                writer: tokio::spawn(Arc::clone(&connection.outbox).write_all()),
                server: Arc::clone(&server),
            }),
            stdio: StdioTransport::new(connection, &limits, Some(PROBE_TIMEOUT)),
            server,
            policy: TerminationPolicy::default(),
            runtime: Handle::current(),
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
        self.server.handle.identity()
    }

    /// A future of the server's end: the proof, or the error that names what is left. It
    /// begins nothing, and keeps no server alive. An end that failed is not tried again;
    /// dropping the transport kills once more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn outcome(&self) -> impl Future<Output = TerminationOutcome> + Send + use<> {
        outcome(&self.server)
    }

    /// Begins the end, in its own task. A runtime that has gone drops the task, which kills.
    fn begin(&mut self, reason: Option<EndReason>, policy: TerminationPolicy) {
        if let Some(end) = self.end.take() {
            drop(self.runtime.spawn(end.run(reason, policy)));
        }
    }
}

fn outcome(server: &Server) -> impl Future<Output = TerminationOutcome> + Send + use<> {
    let mut told = server.outcome.subscribe();
    let lost = server.handle.lost(EndReason::OwnerDropped);
    async move {
        let told = told.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone()).unwrap_or(Err(lost))
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
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.begin(None, self.policy.clone());
        let outcome = outcome(&self.server);
        async { outcome.await.map(drop).map_err(io::Error::other) }
    }
}

impl Drop for ServerTransport {
    fn drop(&mut self) {
        if self.end.is_some() {
            self.server.handle.kill_now();
            let reason = Some(EndReason::OwnerDropped);
            self.begin(reason, TerminationPolicy::immediate());
        }
    }
}

/// The end of a server. Dropped unfinished, which happens when its runtime goes away, it
/// kills the server synchronously.
#[derive(Debug)]
struct End {
    server: Arc<Server>,
    writer: JoinHandle<()>,
}

impl End {
    /// Ends the server, for the reason that can be seen unless one is given.
    async fn run(mut self, reason: Option<EndReason>, policy: TerminationPolicy) {
        let Server {
            connection, handle, ..
        } = &*self.server;
        let reason = match reason {
            Some(reason) => reason,
            None => self.server.reason(&policy).await,
        };
        connection.cancel_all_and_close(reason.as_str());
        if reason == EndReason::Shutdown && !connection.outbox.is_empty() {
            let _ = timeout(policy.flush, &mut self.writer).await;
        }
        let mut end = std::pin::pin!(handle.terminate(&policy, reason));
        let outcome = tokio::select! {
            outcome = &mut end => outcome,
            () = connection.drain_output() => end.await,
        };
        self.server.outcome.send_replace(Some(outcome));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Without requests, nothing else wakes it.
        self.writer.abort();
        let Server {
            handle, outcome, ..
        } = &*self.server;
        if outcome.borrow().is_none() {
            handle.kill_now();
            outcome.send_replace(Some(Err(handle.lost(EndReason::OwnerDropped))));
        }
    }
}

impl Server {
    async fn reason(&self, policy: &TerminationPolicy) -> EndReason {
        let exited = self.connection.exited.cancelled();
        let limit = EXIT_AFTER_OUTPUT.min(policy.beside_rungs());
        if !self.connection.output_ended.is_cancelled() {
            EndReason::Shutdown
        } else if timeout(limit, exited).await.is_ok() {
            EndReason::ServerExited
        } else {
            EndReason::OutputClosed
        }
    }
}
