use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_or_return};
use std::time::Duration;

use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::TransportLimits;
use super::connection::{Connection, encode};
use super::decode::{Decoded, LifecycleFault, decode, fault};
use super::lines::{Line, READS_PER_TURN};
use super::outbox::SendError;
use super::pending::Asked;
use crate::client::SkippedLines;
use crate::terminate::timing::LAST_WORDS;

const SKIPPED_SHOWN: usize = 120;

/// Number of messages before other tasks get a turn. rmcp spawns a task for each notification: those
/// of several servers must fit into the local queue of a Tokio thread (256).
const MESSAGES_PER_TURN: usize = 16;

/// The transport that rmcp's service loop owns. The streams are the [`Connection`]'s.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    wire: Arc<Connection>,
    inbox: VecDeque<RxJsonRpcMessage<RoleClient>>,
    in_turn: usize,
    max_message: usize,
    leaving: Pin<Box<WaitForCancellationFutureOwned>>,
    last_words: Option<Pin<Box<Sleep>>>,
    /// Time limit of `server/discover`. After it the transport answers with an error, which makes
    /// rmcp fall back to `initialize`.
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
            leaving: Box::pin(wire.leaving.clone().cancelled_owned()),
            wire,
            inbox: VecDeque::new(),
            in_turn: 0,
            max_message: limits.max_message,
            last_words: None,
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
        // A single request is written at once, several are batched.
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

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Option<Poll<bool>> {
        let mut reader = self.wire.reader.lock();
        let reader = reader.as_mut()?;
        let mut sink = Sink {
            wire: &self.wire,
            inbox: &mut self.inbox,
            max_message: self.max_message,
        };
        let poll = reader.poll_lines(cx, &mut |line| sink.take(line));
        Some(poll.map(|read| read.unwrap_or(false)))
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_answered = |(id, _): &(RequestId, _)| self.wire.pending.get(id).is_none();
        if self.probe.as_ref().is_some_and(is_answered) {
            // Otherwise its timer would wake an idle host.
            self.probe = None;
        }
        if let Some((id, timer)) = &mut self.probe
            && timer.as_mut().poll(cx).is_ready()
        {
            if self.wire.pending.remove(id).is_some() {
                self.inbox
                    .push_back(fault(id.clone(), &LifecycleFault::NoAnswer));
                *self.wire.given_up.lock() = Some((id.clone(), false));
            }
            self.probe = None;
            return Poll::Ready(());
        }
        if self.last_words.is_none() && self.leaving.as_mut().poll(cx).is_ready() {
            self.last_words = Some(Box::pin(sleep_until(Instant::now() + LAST_WORDS)));
        }
        if let Some(timer) = &mut self.last_words {
            ready_or_return!(timer.as_mut().poll(cx));
            self.end_of_output();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends reading: later output is outside the protocol.
    fn end_of_output(&mut self) {
        drop(self.wire.reader.lock().take());
        self.wire.output_ended.cancel();
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = SendError;

    /// Queues in the call itself rather than in the future, which keeps the order.
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

    /// Never waits for the server: its owner flushes and closes stdin.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.outbox.close();
        Ok(())
    }
}

struct Sink<'a> {
    wire: &'a Connection,
    inbox: &'a mut VecDeque<RxJsonRpcMessage<RoleClient>>,
    max_message: usize,
}

impl Sink<'_> {
    fn take(&mut self, line: Line<'_>) {
        match decode(line, &self.wire.pending, self.max_message) {
            Decoded::Message(message) => {
                self.note_progress(&message);
                self.inbox.push_back(*message);
            }
            Decoded::Stray(id) => {
                tracing::debug!(%id, "an answer that nobody waits for");
                match &mut *self.wire.given_up.lock() {
                    Some((probe, late)) if *probe == id => *late = true,
                    _ => {}
                }
            }
            Decoded::Junk => {
                let (Line::Complete(text) | Line::Oversized(text)) = line;
                let text = String::from_utf8_lossy(&text[..text.len().min(SKIPPED_SHOWN)]);
                tracing::debug!(line = %text, "a line on standard output is not JSON-RPC");
                let mut skipped = self.wire.skipped.lock();
                let first = || SkippedLines {
                    count: 0,
                    first: text.into_owned(),
                };
                skipped.get_or_insert_with(first).count += 1;
            }
        }
    }

    fn note_progress(&self, message: &RxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Notification(n) = message
            && let ServerNotification::ProgressNotification(progress) = &n.notification
        {
            let token = &progress.params.progress_token.0;
            // Not under the lock, since it may run application code.
            let follower = self.wire.progress.lock().get(token).cloned();
            if let Some(follower) = follower {
                follower.comes(&progress.params);
            }
        }
    }
}

#[cfg(test)]
mod tests;
