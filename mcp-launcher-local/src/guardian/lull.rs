//! When a spare guardian is made: between starts of servers, or in the midst of a long one. Pure.
//!
//! ```text
//!  start ──▶ BUSY ── last start over ──▶ PAUSE ──▶ made
//!             │  ▲                         │
//!             │  └──────── start ──────────┘
//!             └── MOST, whoever starts meanwhile ─▶ one is made, and MOST begins again
//! ```

use std::time::{Duration, Instant};

/// The time after a start in which none is made: its first call has the processors for itself.
const PAUSE: Duration = Duration::from_millis(1);
/// The time for which a start keeps one from being made, or starts that follow one another without a pause. What takes
/// longer waits for an interpreter, or for the network.
const MOST: Duration = Duration::from_millis(100);

/// The starts that are under way.
#[derive(Debug, Default)]
pub(super) struct Lull {
    underway: usize,
    /// The last start was over.
    over: Option<Instant>,
    /// The first start after a pause began, or a spare was made since.
    busy_since: Option<Instant>,
}

impl Lull {
    /// A start begins.
    pub(super) fn began(&mut self, now: Instant) {
        let is_paused = self.underway == 0 && self.over.is_none_or(|over| now >= over + PAUSE);
        if is_paused {
            self.busy_since = Some(now);
        }
        self.underway += 1;
    }

    /// A start is over, whatever came of it.
    pub(super) fn ended(&mut self, now: Instant) {
        self.underway = self.underway.saturating_sub(1);
        self.over = Some(now);
    }

    /// A spare was made.
    pub(super) fn made(&mut self, now: Instant) {
        self.busy_since = self.busy_since.map(|_| now);
    }

    /// The time after which one may be made, if nothing happens meanwhile; zero for now.
    pub(super) fn remains(&self, now: Instant) -> Duration {
        let most = self.busy_since.map(|since| since + MOST);
        let paused = match self.underway {
            0 => self.over.map(|over| over + PAUSE),
            _ => most,
        };
        let at = paused.into_iter().chain(most).min();
        at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_made_during_a_start_nor_at_once_after_it() {
        let begun = Instant::now();
        let mut lull = Lull::default();
        assert_eq!(lull.remains(begun), Duration::ZERO);
        lull.began(begun);
        lull.began(begun);
        assert_eq!(lull.remains(begun), MOST);
        let first = begun + MOST / 4;
        lull.ended(first);
        assert_eq!(lull.remains(first), MOST - MOST / 4);
        let second = begun + MOST / 2;
        lull.ended(second);
        assert_eq!(lull.remains(second), PAUSE);
        assert_eq!(lull.remains(second + PAUSE), Duration::ZERO);
    }

    #[test]
    fn starts_without_a_pause_keep_one_back_for_a_while_only() {
        let begun = Instant::now();
        let mut lull = Lull::default();
        let mut now = begun;
        lull.began(now);
        while now < begun + MOST {
            assert!(!lull.remains(now).is_zero());
            lull.began(now);
            lull.ended(now);
            now += PAUSE / 2;
        }
        assert_eq!(lull.remains(now), Duration::ZERO);
        lull.made(now);
        assert_eq!(lull.remains(now), MOST);
        // After a pause, the time begins anew.
        lull.ended(now);
        let later = now + MOST / 2;
        lull.began(later);
        assert_eq!(lull.remains(later), MOST);
    }
}
