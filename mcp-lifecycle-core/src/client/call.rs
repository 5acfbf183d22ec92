//! One call: its time limits, its cancellation, and the reason it fails.

use std::sync::Arc;
use std::time::Duration;

use rmcp::Peer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    ErrorData, ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::error::call::CallError;
use super::session::Session;
use super::transport::decode::{LIFECYCLE_ERROR, LifecycleFault};
use super::transport::outbox::SendError;
use crate::launch::setters::setters;
use crate::terminate::timing::after;

/// The time limits of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOptions {
    /// How long to wait for an answer; `None` waits for ever. 5 minutes by default.
    pub timeout: Option<Duration>,
    /// Whether progress of this call starts `timeout` anew. Off by default.
    pub reset_on_progress: bool,
    /// The longest a call may take whatever its progress. None by default.
    pub max_total: Option<Duration>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(300)),
            reset_on_progress: false,
            max_total: None,
        }
    }
}

impl CallOptions {
    /// The default limits.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how long to wait for an answer; `None` waits until the server ends.
        with_timeout(timeout: impl Into<Option<Duration>>);
    }

    /// Lets progress start the timeout anew, up to `max_total` altogether.
    #[must_use]
    pub fn with_reset_on_progress(mut self, max_total: Duration) -> Self {
        self.reset_on_progress = true;
        self.max_total = Some(max_total);
        self
    }
}

/// Sends a request and waits for its answer.
pub(super) async fn request(
    session: &Session,
    request: ClientRequest,
    options: &CallOptions,
) -> Result<ServerResult, CallError> {
    let Some(running) = session.rmcp.get() else {
        return Err(session.not_connected());
    };
    let peer = running.peer();
    let progress = options.reset_on_progress.then(|| Arc::new(Notify::new()));
    let call = async {
        let RequestHandle {
            rx,
            id,
            progress_token,
            ..
        } = peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await?;
        let mut unanswered = Unanswered {
            session,
            peer,
            id: Some(id),
            progress: progress.as_ref().map(|notify| {
                session.wire.watch_progress(&progress_token, notify.clone());
                progress_token
            }),
        };
        let answer = rx.await.map_err(|_| ServiceError::TransportClosed)?;
        unanswered.id = None;
        answer
    };
    limited(session, call, options, progress.as_deref()).await
}

/// Runs a call of rmcp's under the limits and reasons of ours.
pub(super) async fn guard<T>(
    session: &Session,
    call: impl Future<Output = Result<T, ServiceError>>,
    options: &CallOptions,
) -> Result<T, CallError> {
    limited(session, call, options, None).await
}

async fn limited<T>(
    session: &Session,
    call: impl Future<Output = Result<T, ServiceError>>,
    options: &CallOptions,
    progress: Option<&Notify>,
) -> Result<T, CallError> {
    if let Some(error) = session.end_error() {
        // Refused from the moment the end begins, even while others drain.
        return Err(error);
    }
    let _counted = session.calls.token();
    let mut call = std::pin::pin!(call);
    let last = options
        .max_total
        .map(|total| (after(Instant::now(), total), total));
    let mut idle = options.timeout.map(|wait| (Box::pin(sleep(wait)), wait));
    // Completes with the limit that ran out.
    let timed_out = async {
        let total = async {
            match last {
                Some((last, total)) => {
                    sleep_until(last).await;
                    total
                }
                None => std::future::pending().await,
            }
        };
        let Some((idle, wait)) = idle.as_mut() else {
            return total.await;
        };
        tokio::pin!(total);
        loop {
            tokio::select! {
                () = idle.as_mut() => return *wait,
                total = &mut total => return total,
                () = async {
                    match progress {
                        Some(progress) => progress.notified().await,
                        None => std::future::pending().await,
                    }
                } => idle.as_mut().reset(after(Instant::now(), *wait)),
            }
        }
    };
    tokio::select! {
        biased;
        answer = &mut call => match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(classify(session, error).await),
        },
        error = session.closed() => Err(error.unwrap_or_else(|| session.not_connected())),
        limit = timed_out => Err(CallError::Timeout {
            server: session.server.to_string(),
            timeout: limit,
        }),
    }
}

async fn classify(session: &Session, error: ServiceError) -> CallError {
    let server = || session.server.to_string();
    match error {
        ServiceError::McpError(data) if data.code == LIFECYCLE_ERROR => fault(server(), &data),
        ServiceError::McpError(data) => CallError::Server {
            server: server(),
            source: Box::new(data),
        },
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<SendError>() {
            Some(&SendError::Full { queued, limit }) => CallError::NotReading {
                server: server(),
                queued,
                limit,
            },
            _ => {
                let broken = ServiceError::TransportClosed;
                session
                    .broken()
                    .await
                    .unwrap_or_else(|| protocol(server(), broken))
            }
        },
        closed @ ServiceError::TransportClosed => {
            let cause = session.broken().await;
            cause.unwrap_or_else(|| protocol(server(), closed))
        }
        other => protocol(server(), other),
    }
}

fn protocol(server: String, source: ServiceError) -> CallError {
    CallError::Protocol {
        server,
        source: Box::new(source),
    }
}

fn fault(server: String, data: &ErrorData) -> CallError {
    let fault = data
        .data
        .clone()
        .and_then(|data| serde_json::from_value(data).ok());
    match fault {
        Some(LifecycleFault::TooLarge { limit }) => CallError::TooLarge { server, limit },
        Some(LifecycleFault::Malformed { problem }) => CallError::Malformed { server, problem },
        Some(LifecycleFault::NoAnswer) | None => CallError::Malformed {
            server,
            problem: data.message.to_string(),
        },
    }
}

/// A request that was sent and not answered. Dropped like that, whether by a
/// timeout or by the caller, it tells the server to give up.
struct Unanswered<'a> {
    session: &'a Session,
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
    progress: Option<ProgressToken>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(token) = &self.progress {
            self.session.wire.unwatch_progress(token);
        }
        let Some(id) = self.id.take() else { return };
        if self.session.state.borrow().is_closed() {
            // The end of the connection has told the server already.
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let cancelled = CancelledNotification::new(CancelledNotificationParam::new(
            Some(id),
            Some("the caller stopped waiting".to_owned()),
        ));
        let notification = ClientNotification::CancelledNotification(cancelled);
        let peer = self.peer.clone();
        // In a task because rmcp's queue may be full. It is the same queue that
        // the request went through, so it cannot overtake the request.
        runtime.spawn(async move { peer.send_notification(notification).await });
    }
}
