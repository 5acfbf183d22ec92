use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, JsonRpcMessage,
    NumberOrString, ProgressToken, RequestId,
};
use tokio_util::sync::CancellationToken;

use super::TransportLimits;
use super::lines::LineReader;
use super::outbox::Outbox;
use super::pending::Pending;
use super::progress::Progress;
use crate::client::SkippedLines;
use crate::launch::BoxRead;
use crate::lock::Lock;
use crate::terminate::ServerStdin;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) skipped: Lock<Option<SkippedLines>>,
    /// Cancelled by the owner when the main process has exited.
    pub(crate) exited: CancellationToken,
    /// Cancelled when the main process has exited or the server's input is closed: no more output
    /// is expected.
    pub(crate) leaving: CancellationToken,
    /// Cancelled by the transport when the server's output has ended.
    pub(crate) output_ended: CancellationToken,
    pub(super) pending: Pending,
    pub(super) progress: Lock<HashMap<NumberOrString, Arc<Progress>>>,
    /// The ID of an abandoned probe, and whether it was answered late.
    pub(super) given_up: Lock<Option<(RequestId, bool)>>,
    /// The read half; empty once the owner has taken it.
    pub(super) reader: Lock<Option<LineReader>>,
}

impl Connection {
    pub(crate) fn new(stdin: ServerStdin, stdout: BoxRead, limits: &TransportLimits) -> Arc<Self> {
        let exited = CancellationToken::new();
        let leaving = exited.child_token();
        Arc::new(Self {
            outbox: Outbox::new(stdin, limits.max_queue, leaving.clone()),
            leaving,
            skipped: Lock::default(),
            exited,
            output_ended: CancellationToken::new(),
            pending: Pending::default(),
            progress: Lock::default(),
            given_up: Lock::new(None),
            reader: Lock::new(Some(LineReader::new(stdout, limits.max_message))),
        })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Cancels every request in flight on the server, after the requests themselves, and refuses
    /// further messages.
    pub(crate) fn cancel_all_and_close(&self, reason: &str) {
        for id in self.pending.take_cancellable() {
            let message = cancelled(id, reason);
            // A server that does not read is about to be ended anyway.
            let _ = self.outbox.push(false, |queue| encode(&message, queue));
        }
        self.outbox.close();
    }

    pub(crate) fn watch_progress(&self, token: &ProgressToken, progress: Arc<Progress>) {
        self.progress.lock().insert(token.0.clone(), progress);
    }

    pub(crate) fn unwatch_progress(&self, token: &ProgressToken) {
        self.progress.lock().remove(&token.0);
    }

    /// Takes the server's output from the transport and drains it, so that a server that is stuck
    /// in a write can exit. Completes at the end of the output.
    pub(crate) async fn drain_output(&self) {
        let reader = self.reader.lock().take();
        self.output_ended.cancel();
        if let Some(reader) = reader {
            reader.drain(|_| {}).await;
        }
    }

    pub(crate) fn late_discover(&self) -> bool {
        matches!(*self.given_up.lock(), Some((_, true)))
    }
}

pub(super) fn encode(message: &ClientJsonRpcMessage, queue: &mut Vec<u8>) {
    let start = queue.len();
    if let Err(error) = serde_json::to_writer(&mut *queue, message) {
        // Values from JSON always convert back to JSON.
        tracing::error!(%error, "a message could not be encoded");
        queue.truncate(start);
    }
}

fn cancelled(id: RequestId, reason: &str) -> ClientJsonRpcMessage {
    JsonRpcMessage::notification(
        CancelledNotification::new(CancelledNotificationParam::new(
            Some(id),
            Some(reason.to_owned()),
        ))
        .into(),
    )
}
