use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};

use super::super::limits::MOST_BEFORE_SESSION;
use super::super::metrics::count;
use super::super::quota::Grant;
use super::super::session::Session;
use super::{Connection, End, HIGH_WATER};
use crate::link::{CloseCode, Incoming, Link};

const FREE: usize = 64 * 1024;

const PIECE: usize = 64 * 1024;

/// Time in which a frame over [`FREE`] must grow, whether its client or the quota is the cause.
const PATIENCE: Duration = Duration::from_secs(10);

const GROWTH: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Intake {
    received: u64,
    /// The memory of the frame, until it has been carried out.
    pub(super) frame: Grant,
    freed: Option<Pin<Box<OwnedNotified>>>,
    /// Set while a large frame is incomplete: its size, and the deadline for growing.
    growth: Option<(usize, Pin<Box<Sleep>>)>,
    /// Set while its session has used its frames of this second.
    held: Option<Pin<Box<Sleep>>>,
}

impl Intake {
    pub(super) fn belongs_to(&mut self, session: &Session) {
        self.frame = Grant::of(&session.portion);
    }

    pub(super) fn done(&mut self) {
        self.frame.set(0);
    }

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
                    if unfinished == 0 {
                        ready!(self.in_pace(cx, session));
                    }
                    let bytes = (unfinished + PIECE).saturating_sub(FREE);
                    if !self.frame.try_set(bytes) && !self.has_room_after_all(session, bytes) {
                        ready!(self.wait(cx, session, unfinished)?);
                        continue;
                    }
                }
                None => {}
            }
            self.freed = None;
            link.admit(PIECE);
            match link.poll_recv(cx) {
                Poll::Pending if link.is_held() => continue,
                Poll::Pending => {
                    let unfinished = link.unfinished();
                    if unfinished <= FREE {
                        return Poll::Pending;
                    }
                    let late = "so large a frame came too slowly";
                    return self.grows(cx, unfinished, late).map(Err);
                }
                Poll::Ready(received) => {
                    if !matches!(received, Some(Ok(Incoming::Alive))) {
                        self.growth = None;
                        if let Some(session) = session {
                            session.portion.count_frame(Instant::now());
                        }
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

    /// Checks that a frame grows: one that trickles in would hold memory from others.
    fn grows(&mut self, cx: &mut Context<'_>, unfinished: usize, late: &str) -> Poll<End> {
        let (had, until) = self
            .growth
            .get_or_insert_with(|| (unfinished, Box::pin(tokio::time::sleep(PATIENCE))));
        if unfinished >= *had + GROWTH {
            *had = unfinished;
            until.as_mut().reset(Instant::now() + PATIENCE);
        }
        until
            .as_mut()
            .poll(cx)
            .map(|()| End::new(CloseCode::TryAgain, late))
    }

    /// Waits until the session may send a frame. Counts as a sign of life, since the daemon does
    /// not read.
    fn in_pace(&mut self, cx: &mut Context<'_>, session: &Session) -> Poll<()> {
        while let Some(next) = session.portion.next_frame(Instant::now()) {
            session.heard();
            let mut held = Box::pin(tokio::time::sleep_until(next));
            let over = held.as_mut().poll(cx);
            self.held = Some(held);
            ready!(over);
        }
        Poll::Ready(())
    }

    /// Makes room and registers for a notification. Returns whether there is room now.
    fn has_room_after_all(&mut self, session: &Session, bytes: usize) -> bool {
        let lacks = self.frame.lacks(bytes);
        session.make_room(lacks);
        let mut freed = Box::pin(session.portion.freed());
        freed.as_mut().enable();
        self.freed = Some(freed);
        self.frame.try_set(bytes)
    }

    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        session: &Session,
        unfinished: usize,
    ) -> Poll<Result<(), End>> {
        session.heard();
        let late = "no room for so large a frame for too long";
        if let Poll::Ready(end) = self.grows(cx, unfinished, late) {
            return Poll::Ready(Err(end));
        }
        match &mut self.freed {
            Some(freed) => freed.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl Connection {
    /// Reads the next frame, whatever output is pending. Not while the client leaves *answers*
    /// unread.
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
        // A frame that arrives slowly is a sign of life throughout.
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
