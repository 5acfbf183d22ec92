//! One connection: frames in, answers and events out, by one task.

mod handshake;
mod inbound;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::EndReason;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::event::Event;
use super::metrics::{Present, count};
use super::origin::Origin;
use super::session::{Haste, Next, Session};
use crate::link::{HIGH_WATER, Incoming, Link};
use crate::protocol::{
    RpcError, code, encode_error, encode_notification, encode_raw_output, method,
};

/// What a connection runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may be lost, and another one resume its session.
    Socket,
    /// Its end is the end of the client.
    Pipe,
}

/// How often a client on a socket is asked for a sign of life, at most.
const PING: Duration = Duration::from_secs(10);

/// So many answers to writes leave without company: a client of ours has this
/// many under way before it has to wait for one.
const PATIENT: u32 = 2;

/// How long what is queued may take to leave when the connection ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves a client until its connection ends.
pub(super) async fn serve(shared: &Arc<Shared>, link: Box<dyn Link>, kind: Kind, origin: Origin) {
    let _present = Present::new(&shared.counters);
    let mut connection = Connection {
        shared: Arc::clone(shared),
        link,
        state: State::Unknown,
        dirty: false,
        owed: 0,
        received: 0,
        patient: 0,
        timer: Box::pin(tokio::time::sleep(shared.limits.handshake)),
        stopping: shared.stopping.clone(),
        kind,
        origin,
    };
    let why = connection.run().await;
    tracing::debug!(peer = %origin, why, "connection ended");
    let flush = poll_fn(|cx| connection.link.poll_flush(cx));
    let _ = tokio::time::timeout(FAREWELL, flush).await;
    let Some((session, generation)) = connection.session() else {
        return;
    };
    session.detach(generation);
    if kind == Kind::Pipe {
        let reason = EndReason::Other("client_left".to_owned());
        shared.registry.end(&session, reason).await;
    }
}

/// How far the handshake is.
enum State {
    /// Waits for `initialize`.
    Unknown,
    /// Waits for `initialized`.
    Greeted(Arc<Session>, u64),
    /// Open.
    Open(Arc<Session>, u64),
}

struct Connection {
    shared: Arc<Shared>,
    link: Box<dyn Link>,
    state: State,
    dirty: bool,
    /// Bytes of answers that the client has not taken yet, as far as is known.
    owed: usize,
    /// Bytes that had arrived when this was last looked at.
    received: u64,
    /// Answers that wait in the link for company.
    patient: u32,
    timer: std::pin::Pin<Box<tokio::time::Sleep>>,
    stopping: CancellationToken,
    kind: Kind,
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

    async fn run(&mut self) -> &'static str {
        let stopping = self.stopping.clone();
        let mut stopped = std::pin::pin!(stopping.cancelled());
        poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                self.say_goodbye();
                return Poll::Ready("the daemon is stopping");
            }
            self.poll(cx)
        })
        .await
    }

    /// Frames handled in one go before the task lets others run.
    const TURN: usize = 64;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        for _ in 0..Self::TURN {
            if let Some((session, generation)) = self.session() {
                if !session.is_attached_as(generation) {
                    let text = "session has been resumed by another connection";
                    let error = RpcError::new(code::INVALID_REQUEST, text);
                    self.send(encode_error(None, &error));
                    return Poll::Ready("resumed by another connection");
                }
                if session.has_ended() {
                    self.say_goodbye();
                    return Poll::Ready("the session is over");
                }
            }
            self.send_what_is_due(cx);
            let full = self.link.buffered() > HIGH_WATER;
            if full && let Some(failed) = self.flush(cx) {
                return Poll::Ready(failed);
            }
            match self.poll_recv(cx) {
                Poll::Ready(Some(Ok(incoming))) => {
                    self.incoming_apart(incoming);
                    continue;
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready("it failed"),
                Poll::Ready(None) => return Poll::Ready("the client closed it"),
                Poll::Pending => {}
            }
            // There may be more to send.
            if full && self.link.buffered() <= HIGH_WATER {
                continue;
            }
            // Flushed when there is nothing else to do: one write for many
            // frames.
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

    /// The next frame, however much output there is to send. A client that does
    /// not take its *answers* is not listened to.
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Incoming, crate::link::LinkError>>> {
        let session = self.session().map(|(session, _)| session);
        let waiting = session
            .as_ref()
            .map_or(0, |session| session.answers_waiting());
        if self.owed + waiting > HIGH_WATER {
            return Poll::Pending;
        }
        let queued = self.link.buffered();
        let outcome = self.link.poll_recv(cx);
        let pongs = self.link.buffered() - queued;
        if pongs > 0 {
            self.owed += pongs;
            self.dirty = true;
        }
        // A frame that takes long to arrive is a sign of life all the while.
        let received = self.link.received();
        let before = std::mem::replace(&mut self.received, received);
        if received != before {
            count(&self.shared.counters.received, (received - before) as usize);
            if let Some(session) = session {
                session.heard();
            }
        }
        outcome
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Option<&'static str> {
        if self.dirty || self.patient >= PATIENT {
            self.patient = 0;
            self.dirty = true;
            match self.link.poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.dirty = false;
                    self.owed = 0;
                }
                Poll::Ready(Err(_)) => return Some("it failed"),
                Poll::Pending => {}
            }
        }
        None
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let State::Open(session, _) = &self.state else {
                return Poll::Ready("no handshake in time");
            };
            if self.kind == Kind::Pipe && !session.is_extended() {
                // A plain client on a pipe has no way to say that it lives;
                // the pipe says when it does not.
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

    fn send_answer(&mut self, frame: String) {
        self.owed += frame.len();
        self.send(frame);
    }

    fn send(&mut self, frame: String) {
        self.dirty = true;
        count(&self.shared.counters.sent, frame.len());
        // A link that fails here fails in the next poll as well.
        let _ = self.link.send(frame);
    }

    /// A client that is told does not try to come back.
    fn say_goodbye(&mut self) {
        if let State::Open(session, _) = &self.state
            && session.is_extended()
        {
            self.send(encode_notification(method::ENDED, &serde_json::Map::new()));
        }
    }

    fn send_soon(&mut self, frame: String) {
        self.patient += 1;
        count(&self.shared.counters.sent, frame.len());
        self.owed += frame.len();
        let _ = self.link.send(frame);
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
            self.send(event.frame(process_id, seq));
        }
    }

    /// Answers, then one event of each process in turn, while the link takes it.
    fn send_what_is_due(&mut self, cx: &Context<'_>) {
        let State::Open(session, generation) = &self.state else {
            return;
        };
        let (session, generation) = (Arc::clone(session), *generation);
        let raw = session.takes_raw_output() && self.kind == Kind::Socket;
        while self.link.buffered() <= HIGH_WATER {
            match session.next(generation, cx.waker()) {
                None => return,
                Some(Next::Answer(frame, Haste::Now)) => self.send_answer(frame),
                Some(Next::Answer(frame, Haste::Soon)) => self.send_soon(frame),
                Some(Next::Of(process)) => {
                    let (event, more) = {
                        let mut log = process.log();
                        (log.send(generation), log.has_unsent())
                    };
                    if more {
                        session.wake(&process);
                    }
                    process.sent();
                    if let Some((seq, event)) = event {
                        self.send_event(&process.id, seq, event, raw);
                    }
                }
            }
        }
    }
}
