//! State that the owner of a connection and its transport share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, ready};

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, JsonRpcMessage,
    NumberOrString, ProgressToken, RequestId,
};
use tokio_util::sync::CancellationToken;

use super::lines::LineReader;
use super::outbox::Outbox;
use super::pending::Pending;
use super::progress::Progress;
use super::{TransportLimits, WireCounters};
use crate::client::error::start::SkippedLines;
use crate::launch::launched::BoxRead;
use crate::terminate::stdin::ServerStdin;

/// State that the owner of a connection shares with its transport.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) counters: Arc<WireCounters>,
    /// Cancelled by the owner when the main process has exited.
    pub(crate) exited: CancellationToken,
    /// Cancelled by the transport when the server's output has ended.
    pub(crate) output_ended: CancellationToken,
    pub(super) pending: Pending,
    /// The beginning of the first line that was not JSON-RPC.
    pub(super) first_skipped: OnceLock<String>,
    progress: Mutex<HashMap<NumberOrString, Arc<Progress>>>,
    /// The id of a probe that was given up, and whether it was answered since.
    pub(super) given_up: Mutex<Option<RequestId>>,
    pub(super) late_discover: AtomicBool,
    /// The read half: used by the transport until its owner takes it away.
    reader: Mutex<Option<LineReader>>,
}

/// How many reads without a message are made before other tasks get a turn.
pub(super) const READS_PER_TURN: usize = 32;

impl Connection {
    pub(crate) fn new(stdin: ServerStdin, stdout: BoxRead, limits: &TransportLimits) -> Arc<Self> {
        Arc::new(Self {
            outbox: Outbox::new(stdin, limits.max_queue),
            counters: Arc::default(),
            exited: CancellationToken::new(),
            output_ended: CancellationToken::new(),
            pending: Pending::default(),
            first_skipped: OnceLock::new(),
            progress: Mutex::default(),
            given_up: Mutex::new(None),
            late_discover: AtomicBool::new(false),
            reader: Mutex::new(Some(LineReader::new(stdout, limits.max_message))),
        })
    }

    /// The lines that were not of the protocol, if there were any.
    pub(crate) fn skipped(&self) -> Option<SkippedLines> {
        let first = self.first_skipped.get()?.clone();
        let count = self.counters.snapshot().skipped_lines;
        Some(SkippedLines { count, first })
    }

    /// The number of requests that wait for an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Tells the server to give up every request in flight, after the requests
    /// themselves, and accepts no further messages.
    pub(crate) fn cancel_all_and_close(&self, reason: &str) {
        for id in self.pending.take_cancellable() {
            let message = cancelled(id, reason);
            // A server that does not read is about to be ended anyway.
            let _ = self.outbox.push(false, |queue| encode(&message, queue));
        }
        self.outbox.close();
    }

    /// Tells of progress with this token.
    pub(crate) fn watch_progress(&self, token: &ProgressToken, progress: Arc<Progress>) {
        self.lock_progress().insert(token.0.clone(), progress);
    }

    pub(crate) fn unwatch_progress(&self, token: &ProgressToken) {
        self.lock_progress().remove(&token.0);
    }

    /// Takes the server's output away from the transport and reads the rest of
    /// it into nothing, so that a server which is stuck in a write can leave.
    /// Ends with the output.
    pub(crate) async fn drain_output(&self) {
        let reader = self.lock_reader().take();
        self.output_ended.cancel();
        let Some(mut reader) = reader else {
            return;
        };
        std::future::poll_fn(|cx| {
            for _ in 0..READS_PER_TURN {
                match ready!(reader.poll_lines(cx, &mut |_| {})) {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return Poll::Ready(()),
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Returns whether the probe for the era was answered after it had been given up.
    pub(crate) fn late_discover(&self) -> bool {
        self.late_discover.load(Ordering::Relaxed)
    }

    pub(super) fn lock_progress(&self) -> MutexGuard<'_, HashMap<NumberOrString, Arc<Progress>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_given_up(&self) -> MutexGuard<'_, Option<RequestId>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_reader(&self) -> MutexGuard<'_, Option<LineReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn encode(message: &ClientJsonRpcMessage, queue: &mut Vec<u8>) {
    let start = queue.len();
    if let Err(error) = serde_json::to_writer(&mut *queue, message) {
        // Values that come from JSON always go back to JSON.
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
