//! [`Frames`]: the unfinished frames of one share, and which of them gives way where
//! there is no room for another. Pure, but for who is told.
//!
//! A frame stands still where the daemon has no room for more of it, or where its
//! client sends no more. The one that holds most gives way first, one at a time: a
//! client that needs little outlives those that hold much, whoever began to wait first.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mutex::Mutex;

/// How long a frame may stand still while it, or another one of its share, has no room.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long at most, whatever larger ones do meanwhile: grow, or stay where they were told
/// to give way.
const LONGEST: Duration = Duration::from_secs(60);

/// How much of a frame has to arrive in this time for it not to stand still, in bytes.
const GROWTH: usize = 64 * 1024;

/// The unfinished frames of a share that take room.
#[derive(Debug, Default)]
pub(super) struct Frames {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    frames: Vec<Frame>,
    next: u64,
}

#[derive(Debug)]
struct Frame {
    number: u64,
    bytes: usize,
    /// When it had grown by so much that it does not stand still.
    grown: Instant,
    leave: CancellationToken,
}

impl Frame {
    /// Of two as large ones, the one that came last holds more.
    fn weight(&self) -> (usize, u64) {
        (self.bytes, self.number)
    }
}

/// The answer to a frame for which there is no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stands still, and none holds more.
    GiveWay,
    /// A larger one gives way, or one that has not stood still for as long.
    Wait,
}

/// A frame among those of its share, until this is dropped.
#[derive(Debug)]
pub(super) struct Standing {
    among: Arc<Frames>,
    number: u64,
    leave: CancellationToken,
}

impl Frames {
    /// A frame that takes so many bytes now.
    pub(super) fn add(self: &Arc<Self>, bytes: usize, now: Instant) -> Standing {
        let mut known = self.known.lock();
        let (number, leave) = (known.next, CancellationToken::new());
        known.next += 1;
        known.frames.push(Frame {
            number,
            bytes,
            grown: now,
            leave: leave.clone(),
        });
        Standing {
            among: Arc::clone(self),
            number,
            leave,
        }
    }
}

impl Standing {
    /// It takes so many bytes now.
    pub(super) fn takes(&self, bytes: usize, now: Instant) {
        let mut known = self.among.known.lock();
        let mut frames = known.frames.iter_mut();
        if let Some(frame) = frames.find(|frame| frame.number == self.number)
            && bytes >= frame.bytes + GROWTH
        {
            (frame.bytes, frame.grown) = (bytes, now);
        }
    }

    /// Finds who gives way to this one, for which there is no room, and tells it,
    /// unless that is this one.
    pub(super) fn who_gives_way(&self, now: Instant) -> Verdict {
        let known = self.among.known.lock();
        let mut frames = known.frames.iter();
        let Some(this) = frames.find(|it| it.number == self.number) else {
            return Verdict::GiveWay;
        };
        let stands = |it: &Frame, time| now.duration_since(it.grown) >= time;
        let larger = || known.frames.iter().filter(|it| it.weight() > this.weight());
        let largest = larger().filter(|it| stands(it, PATIENCE));
        if let Some(largest) = largest.max_by_key(|it| it.weight()) {
            largest.leave.cancel();
        }
        // A larger one that grows will be complete, and one that was told will leave.
        let patience = larger().next().map_or(PATIENCE, |_| LONGEST);
        match stands(this, patience) {
            true => Verdict::GiveWay,
            false => Verdict::Wait,
        }
    }

    /// Cancelled when this one has to give way.
    pub(super) fn leave(&self) -> &CancellationToken {
        &self.leave
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let mut known = self.among.known.lock();
        known.frames.retain(|frame| frame.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_largest_gives_way_and_one_at_a_time() {
        let (frames, start) = (Arc::<Frames>::default(), Instant::now());
        let all = [2, 5, 1, 5].map(|mib| frames.add(mib * MIB, start));
        let told = || all.iter().map(|it| it.leave().is_cancelled());
        for small in [0, 1, 2] {
            assert_eq!(all[small].who_gives_way(at(start, 10)), Verdict::Wait);
            assert!(told().eq([false, false, false, true]));
        }
        // It is told by nobody else, and holds its room until it has gone.
        assert_eq!(all[3].who_gives_way(at(start, 10)), Verdict::GiveWay);
        let [a, b, c, d] = all;
        drop(d);
        assert_eq!(a.who_gives_way(at(start, 11)), Verdict::Wait);
        assert!(b.leave().is_cancelled() && !c.leave().is_cancelled());
    }

    #[test]
    fn what_grows_is_waited_for() {
        let (frames, start) = (Arc::<Frames>::default(), Instant::now());
        let least = frames.add(MIB / 2, start);
        let (large, small) = (frames.add(5 * MIB, start), frames.add(MIB, start));
        large.takes(6 * MIB, at(start, 5));
        assert_eq!(small.who_gives_way(at(start, 10)), Verdict::Wait);
        assert!(!large.leave().is_cancelled());
        // A byte now and then is no growth.
        large.takes(6 * MIB + 1, at(start, 14));
        assert_eq!(small.who_gives_way(at(start, 15)), Verdict::Wait);
        assert!(large.leave().is_cancelled());
        drop(large);
        assert_eq!(small.who_gives_way(at(start, 15)), Verdict::GiveWay);
        // What has grown waits for those that hold more, and for nobody else.
        small.takes(2 * MIB, at(start, 20));
        assert_eq!(small.who_gives_way(at(start, 29)), Verdict::Wait);
        assert!(!least.leave().is_cancelled());
        // Not for ever.
        let growing = frames.add(9 * MIB, at(start, 79));
        assert_eq!(small.who_gives_way(at(start, 79)), Verdict::Wait);
        assert_eq!(small.who_gives_way(at(start, 80)), Verdict::GiveWay);
        drop(growing);
    }

    #[test]
    fn who_was_told_and_stays_is_not_waited_for_without_end() {
        let (frames, start) = (Arc::<Frames>::default(), Instant::now());
        let (larger, small) = (frames.add(MIB, start), frames.add(0, start));
        for seconds in [10, 11, 59] {
            assert_eq!(small.who_gives_way(at(start, seconds)), Verdict::Wait);
            assert!(larger.leave().is_cancelled());
        }
        assert_eq!(small.who_gives_way(at(start, 60)), Verdict::GiveWay);
    }
}
