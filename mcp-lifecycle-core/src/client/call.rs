//! One call: time limits, cancellation, and the reason of a failure.

use std::time::Duration;

use rmcp::Peer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::time::{Instant, sleep_until};

use super::session::Session;
use super::transport::decode::LifecycleFault;
use super::transport::outbox::SendError;
use super::transport::progress::Progress;
use super::{CallError, CallErrorKind, CallOptions};
use crate::terminate::timing::after;

#[derive(Debug, Clone, Copy)]
pub(super) enum Called<'a> {
    Tool(&'a str),
    Method(&'a str),
    Unknown,
}

impl Called<'_> {
    pub(super) fn failed(self, session: &Session, kind: CallErrorKind) -> CallError {
        let call = match self {
            Self::Tool(name) => Some(format!("tool `{name}`")),
            Self::Method(method) => Some(format!("`{method}`")),
            Self::Unknown => None,
        };
        CallError::new(&session.observed.server, call.as_deref(), kind)
    }
}

pub(super) async fn request(
    session: &Session,
    called: Called<'_>,
    request: ClientRequest,
    options: &CallOptions,
) -> Result<ServerResult, CallError> {
    let Some(running) = session.rmcp.get() else {
        return Err(called.failed(session, session.not_connected()));
    };
    let peer = running.peer();
    let resets = options.reset_on_progress.is_some();
    let progress = Progress::wanted(resets, options.progress.as_ref());
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
            progress: progress.as_ref().map(|progress| {
                let progress = progress.clone();
                session.wire.watch_progress(&progress_token, progress);
                progress_token
            }),
        };
        let answer = rx.await.map_err(|_| ServiceError::TransportClosed)?;
        unanswered.id = None;
        answer
    };
    guard(session, called, call, options, progress.as_deref()).await
}

pub(super) async fn guard<T>(
    session: &Session,
    called: Called<'_>,
    call: impl Future<Output = Result<T, ServiceError>>,
    options: &CallOptions,
    progress: Option<&Progress>,
) -> Result<T, CallError> {
    if let Some(kind) = session.end_error() {
        // Refused as soon as the end begins, even while others drain.
        return Err(called.failed(session, kind));
    }
    let _counted = session.calls.token();
    let mut call = std::pin::pin!(call);
    let from_now = |limit: Duration| (after(Instant::now(), limit), limit);
    let total = options.reset_on_progress.map(from_now);
    let mut idle = options.timeout.map(from_now);
    let progress = progress.filter(|_| options.reset_on_progress.is_some());
    let timed_out = async {
        loop {
            let Some((first, limit)) = idle.into_iter().chain(total).min() else {
                return std::future::pending().await;
            };
            let renewed = async {
                match progress {
                    Some(progress) => progress.came.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep_until(first) => return limit,
                () = renewed => idle = options.timeout.map(from_now),
            }
        }
    };
    let kind = tokio::select! {
        biased;
        answer = &mut call => match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => classify(session, error).await,
        },
        kind = session.closed() => kind.unwrap_or_else(|| session.not_connected()),
        limit = timed_out => CallErrorKind::Timeout(limit),
    };
    Err(called.failed(session, kind))
}

async fn classify(session: &Session, error: ServiceError) -> CallErrorKind {
    match error {
        ServiceError::McpError(data) => match LifecycleFault::of(&data) {
            Some(LifecycleFault::TooLarge { limit }) => CallErrorKind::TooLarge { limit },
            Some(LifecycleFault::Malformed { problem }) => CallErrorKind::Malformed(problem),
            Some(LifecycleFault::NoAnswer) => CallErrorKind::Malformed(data.message.to_string()),
            None => CallErrorKind::Server(Box::new(data)),
        },
        ServiceError::TransportSend(error)
            if let Some(&SendError::Full { queued, limit }) = error.error.downcast_ref() =>
        {
            CallErrorKind::NotReading { queued, limit }
        }
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
            let closed = || CallErrorKind::Protocol(Box::new(ServiceError::TransportClosed));
            session.broken().await.unwrap_or_else(closed)
        }
        other => CallErrorKind::Protocol(Box::new(other)),
    }
}

/// A request without an answer. Dropping it, by a timeout or by the caller, sends a cancellation to
/// the server.
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
            // The server has noticed the end of the connection.
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
        // In a task, because rmcp's queue may be full. The request went through the same queue, so
        // it cannot be overtaken.
        runtime.spawn(async move { peer.send_notification(notification).await });
    }
}
