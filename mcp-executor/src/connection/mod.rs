//! One connection: one task that reads frames and sends answers and events.

mod handshake;
mod inbound;
mod intake;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use mcp_lifecycle_core::terminate::EndReason;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use self::intake::Intake;
use super::Shared;
use super::admission::{OTHERS_CAME, Ticket};
use super::event::{Event, frame};
use super::metrics::count;
use super::origin::Origin;
use super::session::{AnswerPriority, Next, Session};
use crate::link::{CloseCode, Link, LinkError};
use crate::protocol::extension::EndedNotification;
use crate::protocol::{
    RpcError, code, encode_error, encode_notification, encode_raw_output, method,
};

const PING: Duration = Duration::from_secs(10);

/// Number of answers to writes that are delayed to share a packet; our client has more writes in
/// flight.
const PATIENT: u32 = 2;

/// Maximum delay of such answers, for other clients with fewer writes in flight.
const COMPANY: Duration = Duration::from_millis(10);

const HIGH_WATER: usize = 64 * 1024;

pub(super) const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct End {
    /// `None` if the client is gone.
    code: Option<CloseCode>,
    reason: String,
}

impl End {
    fn new(code: CloseCode, reason: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            reason: reason.into(),
        }
    }

    fn failed(error: &LinkError) -> Self {
        let reason = mcp_lifecycle_core::launch::ErrorChain(error).to_string();
        Self::new(error.close_code(), reason)
    }
}

/// Serves a client until its connection ends. Holds the place in the admission until it has a
/// session. Fails if it was refused one.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    link: Box<dyn Link>,
    origin: Origin,
    ticket: Option<Ticket>,
) -> Result<(), String> {
    let _present = shared.connections.token();
    let limit = tokio::time::Instant::now() + shared.limits.handshake;
    let until = ticket.as_ref().map_or(limit, |ticket| ticket.until);
    let mut connection = Connection {
        shared: Arc::clone(shared),
        link,
        state: State::Unknown,
        dirty: false,
        owed: 0,
        intake: Intake::default(),
        patient: 0,
        company: None,
        ticket,
        finished: None,
        timer: Box::pin(tokio::time::sleep_until(until)),
        stopping: shared.stopping.clone(),
        origin,
    };
    let end = connection.run().await;
    tracing::debug!(peer = %connection.origin, why = end.reason, "connection ended");
    if let Some(code) = end.code {
        // The limit of a control frame.
        let reason: String = end.reason.chars().take(100).collect();
        connection.link.close(code, &reason);
    }
    let flush = poll_fn(|cx| connection.link.poll_flush(cx));
    let _ = tokio::time::timeout(FAREWELL, flush).await;
    let Some((session, generation)) = connection.session() else {
        return match end.code {
            None | Some(CloseCode::Away) => Ok(()),
            Some(_) => Err(end.reason),
        };
    };
    session.detach(generation);
    if connection.origin == Origin::Stdio {
        let reason = EndReason::Other("client_left".to_owned());
        shared.registry.end(&session, reason).await;
    }
    Ok(())
}

enum State {
    Unknown,
    Greeted(Arc<Session>, u64),
    Open(Arc<Session>, u64),
}

struct Connection {
    shared: Arc<Shared>,
    link: Box<dyn Link>,
    state: State,
    dirty: bool,
    /// Bytes of answers that the client has not read yet.
    owed: usize,
    intake: Intake,
    /// Delayed answers in the link, and the end of the delay.
    patient: u32,
    company: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    ticket: Option<Ticket>,
    /// Set while its session is being ended.
    finished: Option<std::pin::Pin<Box<WaitForCancellationFutureOwned>>>,
    timer: std::pin::Pin<Box<tokio::time::Sleep>>,
    stopping: CancellationToken,
    origin: Origin,
}

impl Connection {
    fn session(&self) -> Option<(Arc<Session>, u64)> {
        match &self.state {
            State::Unknown => None,
            State::Greeted(session, generation) | State::Open(session, generation) => {
                Some((Arc::clone(session), *generation))
            }
        }
    }

    async fn run(&mut self) -> End {
        let stopping = self.stopping.clone();
        let mut stopped = std::pin::pin!(stopping.cancelled());
        let leave = self.ticket.as_ref().map(|ticket| ticket.leave.clone());
        let leave = leave.map(CancellationToken::cancelled_owned);
        let mut evicted = std::pin::pin!(OptionFuture::from(leave));
        poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                self.say_goodbye();
                return Poll::Ready(End::new(CloseCode::Away, "the daemon is stopping"));
            }
            if self.ticket.is_some() && evicted.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::new(CloseCode::TryAgain, OTHERS_CAME));
            }
            self.poll(cx)
        })
        .await
    }

    const TURN: usize = 16;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..Self::TURN {
            if let Some((session, generation)) = self.session() {
                if !session.is_attached_as(generation) {
                    let text = "session has been resumed by another connection";
                    let error = RpcError::new(code::INVALID_REQUEST, text);
                    self.send(encode_error(None, &error));
                    return Poll::Ready(End::new(CloseCode::Policy, text));
                }
                if session.has_ended() {
                    return self.leave(cx, &session);
                }
            }
            self.send_what_is_due(cx);
            let full = self.link.buffered() > HIGH_WATER;
            if full && let Some(failed) = self.flush(cx) {
                return Poll::Ready(failed);
            }
            match self.poll_recv(cx) {
                Poll::Ready(Ok(Some(incoming))) => {
                    self.incoming_apart(incoming);
                    continue;
                }
                Poll::Ready(Ok(None)) => {
                    let (code, reason) = (None, "the client closed it".to_owned());
                    return Poll::Ready(End { code, reason });
                }
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => {}
            }
            if full && self.link.buffered() <= HIGH_WATER {
                continue;
            }
            // Flushed when idle: one write for many frames.
            return match self.flush(cx) {
                Some(failed) => Poll::Ready(failed),
                None => self.poll_timer(cx),
            };
        }
        cx.waker().wake_by_ref();
        match self.flush(cx) {
            Some(failed) => Poll::Ready(failed),
            None => self.poll_timer(cx),
        }
    }

    /// Waits for the end of the session's processes; serves nothing meanwhile.
    fn leave(&mut self, cx: &mut Context<'_>, session: &Session) -> Poll<End> {
        let finished = self
            .finished
            .get_or_insert_with(|| Box::pin(session.finished.clone().cancelled_owned()));
        ready!(finished.as_mut().poll(cx));
        self.say_goodbye();
        Poll::Ready(End::new(CloseCode::Normal, "the session is over"))
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Option<End> {
        self.wait_for_company(cx);
        if self.dirty || self.patient >= PATIENT {
            self.patient = 0;
            self.dirty = true;
            match self.link.poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.dirty = false;
                    self.owed = 0;
                }
                Poll::Ready(Err(error)) => return Some(End::failed(&error)),
                Poll::Pending => {}
            }
        }
        None
    }

    fn wait_for_company(&mut self, cx: &mut Context<'_>) {
        if let Some(company) = &mut self.company {
            if company.as_mut().poll(cx).is_pending() {
                return;
            }
            self.dirty |= self.patient > 0;
            self.company = None;
        } else if self.patient > 0 && !self.dirty {
            let mut company = Box::pin(tokio::time::sleep(COMPANY));
            // Registers the waker; the delay is not over yet.
            let _ = company.as_mut().poll(cx);
            self.company = Some(company);
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let State::Open(session, _) = &self.state else {
                return Poll::Ready(End::new(CloseCode::Policy, "no handshake in time"));
            };
            if self.origin == Origin::Stdio && !session.is_extended() {
                // A plain client on a pipe cannot send signs of life; the pipe's end is its end.
                session.heard();
            }
            if self.link.ping() {
                self.dirty = true;
                let _ = self.link.poll_flush(cx);
            }
            let pause = PING.min(session.lease / 3);
            self.timer.as_mut().reset((Instant::now() + pause).into());
        }
        Poll::Pending
    }

    fn send_answer(&mut self, frame: String, priority: AnswerPriority) {
        self.owed += frame.len();
        match priority {
            AnswerPriority::Now => self.dirty = true,
            AnswerPriority::Soon => self.patient += 1,
        }
        self.queue(frame);
    }

    fn send(&mut self, frame: String) {
        self.dirty = true;
        self.queue(frame);
    }

    fn queue(&mut self, frame: String) {
        count(&self.shared.counters.sent, frame.len());
        // A link that fails here fails in the next poll as well.
        let _ = self.link.send(frame);
    }

    fn say_goodbye(&mut self) {
        if let State::Open(session, _) = &self.state
            && session.is_extended()
        {
            let unproven = session.doubts.of(&session.id) as u64;
            let ended = EndedNotification { unproven };
            self.send(encode_notification(method::ENDED, &ended));
        }
    }

    fn send_event(&mut self, process_id: &str, seq: u64, event: Event, raw: bool) {
        if raw
            && let Event::Output(stream, bytes) = &event
            && let Some(frame) = encode_raw_output(process_id, seq, *stream, bytes)
        {
            self.dirty = true;
            count(&self.shared.counters.sent, frame.len());
            // A link that fails here fails in the next poll as well.
            let _ = self.link.send_raw(frame);
        } else {
            self.send(frame(event, process_id, seq));
        }
    }

    /// Sends answers, then one event of each process in turn, as far as the link accepts.
    fn send_what_is_due(&mut self, cx: &Context<'_>) {
        let State::Open(session, generation) = &self.state else {
            return;
        };
        let (session, generation) = (Arc::clone(session), *generation);
        let raw = session.lifecycle.as_ref().is_some_and(|l| l.raw_output);
        while self.link.buffered() <= HIGH_WATER {
            match session.next(generation, cx.waker()) {
                None => return,
                Some(Next::Answer(frame, priority)) => self.send_answer(frame, priority),
                Some(Next::Of(process)) => {
                    let (event, more) = {
                        let mut log = process.log.lock();
                        (log.send(generation), log.has_unsent())
                    };
                    if more {
                        session.wake(&process);
                    }
                    process.room.notify_waiters();
                    if session.is_closing() {
                        session.taken();
                    }
                    if let Some((seq, event)) = event {
                        self.send_event(&process.id, seq, event, raw);
                    }
                }
            }
        }
    }
}
