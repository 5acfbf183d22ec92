//! What a connection takes in: frames, and no more of them than there is room for.

use std::task::{Context, Poll};
use std::time::Duration;

use super::super::budget::Grant;
use super::super::limits::MOST_BEFORE_SESSION;
use super::super::metrics::count;
use super::super::session::Session;
use super::{Connection, End, HIGH_WATER};
use crate::link::{CloseCode, Incoming, Link};

/// So much of an unfinished frame needs no room of the daemon's budget.
const FREE: usize = 64 * 1024;

/// How much is read between two looks at the budget.
const PIECE: usize = 64 * 1024;

/// How long a frame may stand still for want of room.
const PATIENCE: Duration = Duration::from_secs(10);

/// The room that an unfinished frame has.
#[derive(Default)]
pub(super) struct Intake {
    /// Bytes that had arrived when this was last looked at.
    received: u64,
    grant: Grant,
    /// Set while there is no room for more.
    held: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl Intake {
    /// The connection has got a session.
    pub(super) fn belongs_to(&mut self, session: &Session) {
        self.grant = Grant::of(&session.portion);
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
                Some(session)
                    if !self
                        .grant
                        .try_set((unfinished + PIECE).saturating_sub(FREE)) =>
                {
                    session.make_room(PIECE);
                    session.portion.wake_when_freed(cx.waker());
                    // There may have been some meanwhile.
                    if !self
                        .grant
                        .try_set((unfinished + PIECE).saturating_sub(FREE))
                    {
                        return self.wait(cx, session);
                    }
                }
                _ => {}
            }
            self.held = None;
            link.admit(PIECE);
            match link.poll_recv(cx) {
                Poll::Pending if link.is_held() => continue,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(received) => {
                    // A frame that is complete counts as what it becomes.
                    self.grant.set(0);
                    return Poll::Ready(match received {
                        Some(Ok(incoming)) => Ok(Some(incoming)),
                        Some(Err(error)) => Err(End::failed(&error)),
                        None => Ok(None),
                    });
                }
            }
        }
    }

    /// It is this daemon that does not read: no silence of the client's.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        session: &Session,
    ) -> Poll<Result<Option<Incoming>, End>> {
        session.heard();
        let held = self
            .held
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        held.as_mut().poll(cx).map(|()| {
            let reason = "no room for so large a frame for too long";
            Err(End::new(CloseCode::TryAgain, reason))
        })
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
