//! The intake of a connection: frames, and no more of them than there is room for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};

use super::super::budget::Grant;
use super::super::limits::MOST_BEFORE_SESSION;
use super::super::metrics::count;
use super::super::process::Owner as _;
use super::super::session::Session;
use super::{Connection, End, HIGH_WATER};
use crate::link::{CloseCode, Incoming, Link};

/// So much of an unfinished frame needs no room of the daemon's budget.
const FREE: usize = 64 * 1024;

/// How much is read between two looks at the budget.
const PIECE: usize = 64 * 1024;

/// How long a frame may stand still for want of room.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a frame that needs room may take: so long, and as long as it takes at
/// this pace, in bytes per second.
const UNHURRIED: Duration = Duration::from_secs(60);
const PACE: u32 = 4 * 1024;

/// The room that a frame has.
#[derive(Default)]
pub(super) struct Intake {
    /// Bytes that had arrived when this was last looked at.
    received: u64,
    /// The memory that the frame takes, until it has been carried out.
    pub(super) frame: Grant,
    /// Set while there is no room for more.
    held: Option<Pin<Box<Sleep>>>,
    freed: Option<Pin<Box<OwnedNotified>>>,
    /// Set while a frame that needs room is not complete: since when, and until when
    /// it may be.
    slow: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Intake {
    /// The connection has got a session.
    pub(super) fn belongs_to(&mut self, session: &Session) {
        self.frame = Grant::of(&session.portion);
    }

    /// The frame that was read last has been carried out.
    pub(super) fn done(&mut self) {
        self.frame.set(0);
    }

    /// The next frame, read piece by piece.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        link: &mut dyn Link,
        session: Option<&Session>,
    ) -> Poll<Result<Option<Incoming>, End>> {
        let limit = MOST_BEFORE_SESSION;
        loop {
            let unfinished = link.unfinished();
            match session {
                None if unfinished >= limit => {
                    let reason = format!("a frame of more than {limit} bytes before initialized");
                    return Poll::Ready(Err(End::new(CloseCode::TooLarge, reason)));
                }
                Some(session) => {
                    let bytes = (unfinished + PIECE).saturating_sub(FREE);
                    if !self.frame.try_set(bytes) && !self.has_room_after_all(session, bytes) {
                        ready!(self.wait(cx, session)?);
                        continue;
                    }
                }
                None => {}
            }
            (self.held, self.freed) = (None, None);
            link.admit(PIECE);
            match link.poll_recv(cx) {
                Poll::Pending if link.is_held() => continue,
                Poll::Pending => return self.hurry(cx, link.unfinished()),
                Poll::Ready(received) => {
                    if !matches!(received, Some(Ok(Incoming::Alive))) {
                        self.slow = None;
                    }
                    return Poll::Ready(match received {
                        Some(Ok(incoming)) => Ok(Some(incoming)),
                        Some(Err(error)) => Err(End::failed(&error)),
                        None => Ok(None),
                    });
                }
            }
        }
    }

    /// A frame that trickles in keeps its room from others.
    fn hurry(
        &mut self,
        cx: &mut Context<'_>,
        unfinished: usize,
    ) -> Poll<Result<Option<Incoming>, End>> {
        if unfinished <= FREE {
            self.slow = None;
            return Poll::Pending;
        }
        let (begun, until) = self
            .slow
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(UNHURRIED))));
        let earned = Duration::from_secs(unfinished as u64) / PACE;
        let due = *begun + UNHURRIED + earned;
        if until.deadline() != due {
            until.as_mut().reset(due);
        }
        until.as_mut().poll(cx).map(|()| {
            let reason = "so large a frame came too slowly";
            Err(End::new(CloseCode::TryAgain, reason))
        })
    }

    /// Makes room, and has this connection told when there is some, unless there
    /// is now.
    fn has_room_after_all(&mut self, session: &Session, bytes: usize) -> bool {
        let lacks = self.frame.lacks(bytes);
        session.make_room(lacks);
        let mut freed = Box::pin(session.portion.freed_owned());
        freed.as_mut().enable();
        session.portion.want(lacks);
        self.freed = Some(freed);
        self.frame.try_set(bytes)
    }

    /// Until there may be room. It is this daemon that does not read: no silence
    /// of the client's.
    fn wait(&mut self, cx: &mut Context<'_>, session: &Session) -> Poll<Result<(), End>> {
        session.heard();
        self.slow = None;
        let held = self
            .held
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        if held.as_mut().poll(cx).is_ready() {
            let reason = "no room for so large a frame for too long";
            return Poll::Ready(Err(End::new(CloseCode::TryAgain, reason)));
        }
        match &mut self.freed {
            Some(freed) => freed.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl Connection {
    /// The next frame, however much output there is to send. A client that does
    /// not take its *answers* is not listened to.
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Incoming>, End>> {
        let session = self.session().map(|(session, _)| session);
        let waiting = session
            .as_ref()
            .map_or(0, |session| session.answers_waiting());
        if self.owed + waiting > HIGH_WATER {
            return Poll::Pending;
        }
        let queued = self.link.buffered();
        let outcome = self.intake.poll(cx, &mut *self.link, session.as_deref());
        let pongs = self.link.buffered() - queued;
        if pongs > 0 {
            self.owed += pongs;
            self.dirty = true;
        }
        // A frame that takes long to arrive is a sign of life all the while.
        let received = self.link.received();
        let before = std::mem::replace(&mut self.intake.received, received);
        if received != before {
            count(&self.shared.counters.received, (received - before) as usize);
            if let Some(session) = session {
                session.heard();
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use mcp_launcher_local::LocalLauncher;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::super::super::origin::Share;
    use super::super::super::{Daemon, Limits};
    use super::*;
    use crate::link::{Counted, WebSocketLink, websocket_config};

    async fn link(stream: DuplexStream) -> WebSocketLink<DuplexStream> {
        let config = Some(websocket_config(16 << 20));
        let stream = Counted::new(stream);
        WebSocketLink::new(WebSocketStream::from_raw_socket(stream, Role::Server, config).await)
    }

    /// How a frame of a mebibyte fares that comes so many bytes a second; what of its
    /// client's room it has then, and after it has been carried out.
    async fn trickle(pace: usize) -> (Duration, Result<Option<Incoming>, End>, [usize; 2]) {
        let (mut client, stream) = duplex(64 * 1024);
        let mut link = link(stream).await;
        let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
        let (id, of) = ("s".to_owned(), Share::User(0));
        let session = Session::new(id, &daemon.shared, None, None, None, of);
        let room = session.portion.room();
        let mut intake = Intake::default();
        intake.belongs_to(&session);
        tokio::spawn(async move {
            // Text, of eight bytes of length, masked with nothing.
            let mut head = vec![0x81, 0x80 | 127];
            head.extend((1_u64 << 20).to_be_bytes());
            head.extend([0; 4]);
            client.write_all(&head).await.unwrap();
            let mut left = 1 << 20;
            while left > 0 {
                let part = pace.min(left);
                left -= part;
                if client.write_all(&vec![b'x'; part]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
        });
        let begun = Instant::now();
        let outcome = poll_fn(|cx| intake.poll(cx, &mut link, Some(&session))).await;
        let took = begun.elapsed();
        let taken = [(); 2].map(|()| {
            let taken = room - session.portion.room();
            intake.done();
            taken
        });
        (took, outcome, taken)
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_may_be_slow_and_not_for_ever() {
        let (took, outcome, _) = trickle(8 * 1024).await;
        assert!(
            matches!(&outcome, Ok(Some(Incoming::Frame(frame))) if frame.len() == 1 << 20),
            "{took:?}"
        );
        let (took, outcome, _) = trickle(1024).await;
        assert!(outcome.is_err());
        assert!(took < Duration::from_secs(180), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_counts_until_it_has_been_carried_out() {
        let (_, outcome, taken) = trickle(1 << 20).await;
        assert!(outcome.is_ok());
        assert!(
            taken[0] >= 2 * ((1 << 20) - FREE) && taken[1] == 0,
            "{taken:?}"
        );
    }
}
