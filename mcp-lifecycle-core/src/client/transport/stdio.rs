//! The rmcp [`Transport`] over one server's streams, and what is shared with its owner.

use std::collections::{HashMap, VecDeque};
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready as ready_or_return};
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    JsonRpcMessage, NumberOrString, ProgressToken, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::decode::{Decoded, LifecycleFault, decode, fault};
use super::lines::{Line, LineReader};
use super::outbox::{Outbox, SendError};
use super::pending::{Asked, Pending};
use super::progress::Progress;
use super::{TransportLimits, WireCounters};
use crate::client::error::start::SkippedLines;
use crate::launch::launched::BoxRead;
use crate::terminate::stdin::ServerStdin;
use crate::terminate::timing::OUTPUT_AFTER_EXIT;

/// What the owner of a connection shares with its transport.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) counters: Arc<WireCounters>,
    /// Cancelled by the owner when the main process has exited.
    pub(crate) exited: CancellationToken,
    /// Cancelled by the transport when the server's output has ended.
    pub(crate) output_ended: CancellationToken,
    pending: Pending,
    /// The beginning of the first line that was not JSON-RPC.
    first_skipped: OnceLock<String>,
    progress: Mutex<HashMap<NumberOrString, Arc<Progress>>>,
    /// The id of a probe that was given up, and whether it was answered since.
    given_up: Mutex<Option<RequestId>>,
    late_discover: AtomicBool,
    /// The read half: used by the transport until its owner takes it away.
    reader: Mutex<Option<LineReader>>,
}

/// How much of a line that was skipped is shown, in bytes.
const SKIPPED_SHOWN: usize = 120;

/// How many reads without a message are made before other tasks get a turn.
const READS_PER_TURN: usize = 32;

/// The number of messages that are taken before other tasks get a turn. One read brings
/// hundreds, and rmcp starts a task for each notification: so few that those of
/// several servers fit into the queue of one of Tokio's threads (256). What is
/// over goes to the end of a queue that is looked at far more rarely, and so
/// does everybody who is woken from elsewhere.
const MESSAGES_PER_TURN: usize = 16;

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

    /// What has come that was not the protocol, if anything.
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
                match ready_or_return!(reader.poll_lines(cx, &mut |_| {})) {
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

    fn lock_progress(&self) -> MutexGuard<'_, HashMap<NumberOrString, Arc<Progress>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_given_up(&self) -> MutexGuard<'_, Option<RequestId>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_reader(&self) -> MutexGuard<'_, Option<LineReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transport that rmcp's service loop owns. The streams are the [`Connection`]'s.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    wire: Arc<Connection>,
    inbox: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// The number of messages that were taken since other tasks had a turn.
    in_turn: usize,
    max_message: usize,
    exited: Pin<Box<WaitForCancellationFutureOwned>>,
    after_exit: Option<Pin<Box<Sleep>>>,
    /// The time `server/discover` may stay unanswered before we answer it with
    /// an error ourselves, which makes rmcp fall back to `initialize`.
    probe_timeout: Option<Duration>,
    probe: Option<(RequestId, Pin<Box<Sleep>>)>,
}

impl StdioTransport {
    pub(crate) fn new(
        wire: Arc<Connection>,
        limits: &TransportLimits,
        probe_timeout: Option<Duration>,
    ) -> Self {
        Self {
            exited: Box::pin(wire.exited.clone().cancelled_owned()),
            wire,
            inbox: VecDeque::new(),
            in_turn: 0,
            max_message: limits.max_message,
            after_exit: None,
            probe_timeout,
            probe: None,
        }
    }

    fn enqueue(&mut self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), SendError> {
        let mut request = None;
        let in_flight = match message {
            JsonRpcMessage::Request(r) => {
                let asked = Asked::by(&r.request);
                if asked == Asked::Discover {
                    self.probe = self
                        .probe_timeout
                        .map(|wait| (r.id.clone(), Box::pin(sleep(wait))));
                }
                request = Some(&r.id);
                self.wire.pending.insert(r.id.clone(), asked)
            }
            JsonRpcMessage::Notification(n) => {
                if let ClientNotification::CancelledNotification(c) = &n.notification
                    && let Some(id) = &c.params.request_id
                {
                    self.wire.pending.remove(id);
                }
                self.wire.pending.len()
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.wire.pending.len(),
        };
        // Alone on the wire: the shortest way. In company: batch.
        let at_once = in_flight <= 1;
        let queued = self
            .wire
            .outbox
            .push(at_once, |queue| encode(message, queue));
        if let (Err(_), Some(id)) = (&queued, request) {
            self.wire.pending.remove(id);
        }
        queued
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<RxJsonRpcMessage<RoleClient>>> {
        if self.in_turn == MESSAGES_PER_TURN {
            self.in_turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        for _ in 0..READS_PER_TURN {
            if let Some(message) = self.inbox.pop_front() {
                self.in_turn += 1;
                if self.inbox.is_empty() {
                    self.inbox.shrink_to(0);
                }
                return Poll::Ready(Some(message));
            }
            match self.poll_read(cx) {
                Some(Poll::Ready(true)) => {}
                Some(Poll::Pending) => {
                    self.in_turn = 0;
                    ready_or_return!(self.poll_timers(cx));
                }
                Some(Poll::Ready(false)) => self.end_of_output(),
                None => return Poll::Ready(None),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once; `None` when the output has ended or was taken away.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Option<Poll<bool>> {
        let mut reader = self.wire.lock_reader();
        let reader = reader.as_mut()?;
        let mut sink = Sink {
            wire: &self.wire,
            inbox: &mut self.inbox,
            max_message: self.max_message,
        };
        let poll = reader.poll_lines(cx, &mut |line| sink.take(line));
        Some(poll.map(|read| read.unwrap_or(false)))
    }

    /// Ready when one of them changed something.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_answered = |(id, _): &(RequestId, _)| self.wire.pending.get(id).is_none();
        if self.probe.as_ref().is_some_and(is_answered) {
            // Or it would wake an idle host once more.
            self.probe = None;
        }
        if let Some((id, timer)) = &mut self.probe
            && timer.as_mut().poll(cx).is_ready()
        {
            if self.wire.pending.remove(id).is_some() {
                self.inbox
                    .push_back(fault(id.clone(), &LifecycleFault::NoAnswer));
                *self.wire.lock_given_up() = Some(id.clone());
            }
            self.probe = None;
            return Poll::Ready(());
        }
        if self.after_exit.is_none() && self.exited.as_mut().poll(cx).is_ready() {
            self.after_exit = Some(Box::pin(sleep_until(Instant::now() + OUTPUT_AFTER_EXIT)));
        }
        if let Some(timer) = &mut self.after_exit {
            ready_or_return!(timer.as_mut().poll(cx));
            self.end_of_output();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends reading: later output of the server is not the protocol any more.
    fn end_of_output(&mut self) {
        drop(self.wire.lock_reader().take());
        self.wire.output_ended.cancel();
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = SendError;

    /// Queues in the call itself, not when the future is polled: that keeps the order.
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let queued: Ready<_> = ready(self.enqueue(&item));
        queued
    }

    /// Cancel safe: what has been read stays in this transport.
    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        std::future::poll_fn(|cx| self.poll_receive(cx))
    }

    /// Never waits for the server: the flush and the end of its standard input
    /// belong to the owner of the server.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.outbox.close();
        Ok(())
    }
}

/// Takes lines and makes messages of them.
struct Sink<'a> {
    wire: &'a Connection,
    inbox: &'a mut VecDeque<RxJsonRpcMessage<RoleClient>>,
    max_message: usize,
}

impl Sink<'_> {
    fn take(&mut self, line: Line<'_>) {
        let counters = &self.wire.counters;
        if let Line::Oversized(_) = line {
            counters.oversized_lines.fetch_add(1, Ordering::Relaxed);
        }
        match decode(line, &self.wire.pending, self.max_message) {
            Decoded::Message(message) => {
                self.note_progress(&message);
                self.inbox.push_back(*message);
            }
            Decoded::Stray(id) => {
                tracing::debug!(%id, "an answer that nobody waits for");
                if self.wire.lock_given_up().as_ref() == Some(&id) {
                    self.wire.late_discover.store(true, Ordering::Relaxed);
                }
            }
            Decoded::Junk => {
                counters.skipped_lines.fetch_add(1, Ordering::Relaxed);
                let (Line::Complete(text) | Line::Oversized(text)) = line;
                let text = String::from_utf8_lossy(&text[..text.len().min(SKIPPED_SHOWN)]);
                tracing::debug!(line = %text, "a line on standard output is not JSON-RPC");
                if self.wire.first_skipped.get().is_none() {
                    let _ = self.wire.first_skipped.set(text.into_owned());
                }
            }
        }
    }

    fn note_progress(&self, message: &RxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Notification(n) = message
            && let ServerNotification::ProgressNotification(progress) = &n.notification
        {
            let token = &progress.params.progress_token.0;
            // Not under the lock: it may be an application's own code.
            let follower = self.wire.lock_progress().get(token).cloned();
            if let Some(follower) = follower {
                follower.comes(&progress.params);
            }
        }
    }
}

fn encode(message: &ClientJsonRpcMessage, queue: &mut Vec<u8>) {
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

#[cfg(test)]
mod tests;
