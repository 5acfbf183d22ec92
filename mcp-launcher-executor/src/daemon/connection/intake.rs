//! The intake of a connection: frames, and no more of them than there is room for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::super::budget::Grant;
use super::super::limits::MOST_BEFORE_SESSION;
use super::super::metrics::count;
use super::super::process::Owner as _;
use super::super::session::Session;
use super::super::standing::{PATIENCE, Standing, Verdict};
use super::{Connection, End, HIGH_WATER};
use crate::link::{CloseCode, Incoming, Link};

/// So much of an unfinished frame needs no room of the daemon's budget.
const FREE: usize = 64 * 1024;

/// How much is read between two looks at the budget.
const PIECE: usize = 64 * 1024;

/// How often one that was held so long looks again for who gives way to it.
const AGAIN: Duration = Duration::from_secs(1);

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
    /// Set from when there was no room for more of a frame until it is complete: when
    /// somebody has to give way if there is none then either.
    held: Option<Pin<Box<Sleep>>>,
    /// Set while there is no room for more.
    freed: Option<Pin<Box<OwnedNotified>>>,
    /// Set while a frame that needs room is not complete: since when, and until when
    /// it may be.
    slow: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Its place among the unfinished frames of its share, and that it has to leave it.
    standing: Option<(Standing, Pin<Box<WaitForCancellationFutureOwned>>)>,
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
                    if unfinished > FREE {
                        let standing = self.among(session);
                        standing.takes(unfinished, Instant::now());
                    }
                }
                None => {}
            }
            self.freed = None;
            link.admit(PIECE);
            match link.poll_recv(cx) {
                Poll::Pending if link.is_held() => continue,
                Poll::Pending => return self.hurry(cx, link.unfinished()),
                Poll::Ready(received) => {
                    if !matches!(received, Some(Ok(Incoming::Alive))) {
                        (self.held, self.slow, self.standing) = (None, None, None);
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
            // One that waited for room once may have to give way all the same.
            self.slow = None;
            return self.told(cx).map(Err);
        }
        let (begun, until) = self
            .slow
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(UNHURRIED))));
        let earned = Duration::from_secs(unfinished as u64) / PACE;
        let due = *begun + UNHURRIED + earned;
        if until.deadline() != due {
            until.as_mut().reset(due);
        }
        if until.as_mut().poll(cx).is_ready() {
            let reason = "so large a frame came too slowly";
            return Poll::Ready(Err(End::new(CloseCode::TryAgain, reason)));
        }
        self.told(cx).map(Err)
    }

    /// Its place among the unfinished frames of its share.
    fn among(&mut self, session: &Session) -> &Standing {
        let bytes = self.frame.bytes();
        let (standing, _) = self.standing.get_or_insert_with(|| {
            let standing = session.portion.frames().add(bytes, Instant::now());
            let told = Box::pin(standing.leave().clone().cancelled_owned());
            (standing, told)
        });
        standing
    }

    /// Until its frame has to give way to a smaller one.
    fn told(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let Some((_, told)) = &mut self.standing else {
            return Poll::Pending;
        };
        told.as_mut().poll(cx).map(|()| {
            let reason = "others have no room, and so large a frame stands still";
            End::new(CloseCode::TryAgain, reason)
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
        let mut held = self
            .held
            .take()
            .unwrap_or_else(|| Box::pin(tokio::time::sleep(PATIENCE)));
        while held.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.among(session).who_gives_way(now) == Verdict::GiveWay {
                let reason = "no room for so large a frame for too long";
                return Poll::Ready(Err(End::new(CloseCode::TryAgain, reason)));
            }
            held.as_mut().reset(now + AGAIN);
        }
        self.held = Some(held);
        if let Poll::Ready(end) = self.told(cx) {
            return Poll::Ready(Err(end));
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
            return self.intake.told(cx).map(Err);
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
mod tests;
