//! The rmcp [`Transport`] over one server's streams.

use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready as ready_or_return};
use std::time::Duration;

use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::TransportLimits;
use super::connection::{Connection, READS_PER_TURN, encode};
use super::decode::{Decoded, LifecycleFault, decode, fault};
use super::lines::Line;
use super::outbox::SendError;
use super::pending::Asked;
use crate::terminate::timing::OUTPUT_AFTER_EXIT;

/// How much of a line that was skipped is shown, in bytes.
const SKIPPED_SHOWN: usize = 120;

/// The number of messages that are taken before other tasks get a turn. One read brings
/// hundreds, and rmcp starts a task for each notification: so few that those of
/// several servers fit into the queue of one of Tokio's threads (256). What is
/// over goes to the end of a queue that is looked at far more rarely, and so
/// does everybody who is woken from elsewhere.
const MESSAGES_PER_TURN: usize = 16;

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

#[cfg(test)]
mod tests;
