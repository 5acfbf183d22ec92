//! The number of spare guardians that are wanted. Pure.
//!
//! ```text
//! 0 ── first launch ──▶ 1 ── a launch found none ──▶ twice as many, at most MOST
//!                       ▲                                │
//!                       └──── QUIET without a launch ────┘  half as many
//! ```

use std::time::{Duration, Instant};

/// The time without a launch after which fewer are wanted.
const QUIET: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Demand {
    most: usize,
    wanted: usize,
    /// The last launch, or the last time that fewer were wanted.
    since: Option<Instant>,
    /// One could not be made, and nobody has launched since.
    is_stalled: bool,
}

impl Demand {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            wanted: 0,
            since: None,
            is_stalled: false,
        }
    }

    /// A launch has found a spare, or none.
    pub(super) fn launched(&mut self, found: bool, now: Instant) {
        self.is_stalled = false;
        let is_first = self.since.replace(now).is_none();
        self.wanted = match found || is_first {
            true => self.wanted.max(1),
            false => self.wanted.saturating_mul(2),
        };
        self.wanted = self.wanted.min(self.most);
    }

    /// A launch is to come.
    pub(super) fn expected(&mut self, now: Instant) {
        self.is_stalled = false;
        self.since = Some(now);
        self.wanted = self.wanted.max(1).min(self.most);
    }

    /// One could not be made.
    pub(super) fn failed(&mut self) {
        self.is_stalled = true;
    }

    /// The number that is to be there now.
    pub(super) fn wanted(&mut self, now: Instant) -> usize {
        while let Some(Duration::ZERO) = self.until_fewer(now) {
            self.wanted /= 2;
            self.since = self.since.map(|since| since + QUIET);
        }
        if self.is_stalled { 0 } else { self.wanted }
    }

    /// The time after which fewer are wanted; `None` for never.
    pub(super) fn until_fewer(&self, now: Instant) -> Option<Duration> {
        let since = self.since.filter(|_| self.wanted > 1)?;
        Some((since + QUIET).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_grows_by_misses_and_shrinks_by_quiet() {
        let begun = Instant::now();
        let mut demand = Demand::new(8);
        assert_eq!(demand.wanted(begun), 0);
        demand.launched(false, begun);
        assert_eq!(demand.wanted(begun), 1);
        for wanted in [2, 4, 8, 8] {
            demand.launched(false, begun);
            assert_eq!(demand.wanted(begun), wanted);
        }
        demand.launched(true, begun);
        assert_eq!(demand.until_fewer(begun), Some(QUIET));
        assert_eq!(demand.wanted(begun + QUIET / 2), 8);
        assert_eq!(demand.wanted(begun + QUIET), 4);
        // A host that was stopped for long.
        assert_eq!(demand.wanted(begun + 9 * QUIET), 1);
        assert_eq!(demand.until_fewer(begun + 9 * QUIET), None);
    }

    #[test]
    fn what_cannot_be_made_waits_for_the_next_launch() {
        let now = Instant::now();
        let mut demand = Demand::new(2);
        demand.launched(false, now);
        demand.failed();
        assert_eq!(demand.wanted(now), 0);
        demand.launched(false, now);
        assert_eq!(demand.wanted(now), 2);
    }

    #[test]
    fn nobody_wants_more_than_the_most() {
        let now = Instant::now();
        for most in 0..5 {
            let mut demand = Demand::new(most);
            for _ in 0..5 {
                demand.launched(false, now);
                assert!(demand.wanted(now) <= most);
            }
        }
    }
}
