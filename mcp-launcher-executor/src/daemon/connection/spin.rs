//! Whether a connection looks again instead of sleeping. Pure.
//!
//! A server answers a small call sooner than a thread that sleeps is awake again. So
//! after a frame its connection goes on looking for a moment, unless that was in vain lately.

use std::time::{Duration, Instant};

/// After so many looks in vain no more frames are let pass without one than before: 63.
const MOST_DOUBLINGS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Spin {
    longest: Duration,
    /// When the frame arrived, while it goes on.
    since: Option<Instant>,
    has_come: bool,
    /// Looks in vain, in a row.
    misses: u32,
    /// Frames that are let pass without a look.
    pause: u32,
}

impl Spin {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// A frame has arrived.
    pub(super) fn frame(&mut self) {
        if self.longest.is_zero() {
            return;
        }
        self.has_come |= self.since.is_some();
        self.end();
        match self.pause.checked_sub(1) {
            Some(pause) => self.pause = pause,
            None => self.since = Some(Instant::now()),
        }
    }

    /// A server has said something.
    pub(super) fn output(&mut self) {
        self.has_come = self.since.is_some();
    }

    /// Whether to look again.
    pub(super) fn goes_on(&mut self) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        self.is_due(since.elapsed())
    }

    fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed < self.longest;
        if !is_due {
            self.end();
        }
        is_due
    }

    fn end(&mut self) {
        if self.since.take().is_none() {
            return;
        }
        if std::mem::take(&mut self.has_come) {
            self.misses = 0;
        } else {
            self.misses = MOST_DOUBLINGS.min(self.misses + 1);
            self.pause = (1 << self.misses) - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(3600);

    /// How many of so many frames are followed by a look.
    fn looks(spin: &mut Spin, frames: usize, each: impl Fn(&mut Spin)) -> usize {
        let mut looks = 0;
        for _ in 0..frames {
            spin.frame();
            looks += usize::from(spin.goes_on());
            each(spin);
            spin.is_due(LONGEST);
        }
        looks
    }

    #[test]
    fn looks_in_vain_become_rare_and_one_that_was_not_brings_them_back() {
        let mut spin = Spin::new(LONGEST);
        assert_eq!(looks(&mut spin, 100, Spin::output), 100);
        assert_eq!(looks(&mut spin, 64 * 100, |_| {}), 105);
        let answered = looks(&mut spin, 64, Spin::output);
        assert!(answered > 0, "it looks again at times");
        assert_eq!(looks(&mut spin, 100, Spin::output), 100);
    }

    #[test]
    fn the_next_frame_is_what_was_looked_for_as_well() {
        let mut spin = Spin::new(LONGEST);
        for _ in 0..100 {
            spin.frame();
            assert!(spin.goes_on());
        }
    }

    #[test]
    fn it_ends_with_its_time_and_never_begins_without_any() {
        let mut spin = Spin::new(LONGEST);
        spin.frame();
        assert!(!spin.is_due(LONGEST));
        assert!(!spin.goes_on());
        let mut spin = Spin::new(Duration::ZERO);
        assert_eq!(looks(&mut spin, 100, Spin::output), 0);
    }
}
