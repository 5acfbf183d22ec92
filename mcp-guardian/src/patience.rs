//! The time limit of repeated looks while processes keep appearing.
//!
//! It counts pauses between looks, and only those in which the awaited processes could have run: the
//! clock runs on while a busy machine runs neither them nor the search.

use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// The limit of counted pauses. An exec takes a millisecond; a build may start a thousand processes
/// in a second.
const LIMIT: Duration = Duration::from_millis(1500);

/// The limit of the whole time, on any machine.
const LONGEST: Duration = Duration::from_millis(16_500);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(16);

const AT_ONCE: usize = 1000;

#[derive(Debug)]
pub struct Patience {
    end: Instant,
    pause: Duration,
    /// The sum of the pauses that count.
    total: Duration,
    at_once: usize,
}

impl Patience {
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self {
            end: Instant::now() + LONGEST,
            pause: Duration::from_micros(100),
            total: Duration::ZERO,
            at_once: AT_ONCE,
        }
    }

    /// Creates one that ends at `end` at the latest.
    pub fn until(end: Instant) -> Self {
        let mut patience = Self::new();
        patience.end = patience.end.min(end);
        patience
    }

    /// Returns `false` when a limit is reached. Sleeps only after many times: the longer the pause,
    /// the more processes come and go meanwhile.
    pub fn lasts(&mut self) -> bool {
        self.at_once = self.at_once.saturating_sub(1);
        self.at_once > 0 && Instant::now() < self.end || self.lasts_beside([])
    }

    /// Sleeps, longer each time, while these processes are waited for: the pause does not count if one of them
    /// is itself waiting for a processor.
    pub fn lasts_beside(&mut self, processes: impl IntoIterator<Item = u32>) -> bool {
        let waits = |pid| sys::see(pid).is_some_and(|seen| seen.is_runnable);
        let counts = !processes.into_iter().any(waits);
        let pause = self.next(counts);
        let pause = pause.filter(|_| Instant::now() < self.end);
        pause.map(thread::sleep).is_some()
    }

    /// Returns the next pause; `None` when enough of them have counted.
    fn next(&mut self, counts: bool) -> Option<Duration> {
        if self.total >= LIMIT {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        if counts {
            self.total += pause;
        }
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_count_end_patience_and_others_do_not() {
        let mut course = Patience::new();
        let pauses: Vec<_> = std::iter::from_fn(|| course.next(true)).collect();
        let total: Duration = pauses.iter().sum();
        assert!(total >= LIMIT && total < LIMIT + PAUSE_MAX, "{total:?}");
        assert!(pauses.is_sorted() && pauses.iter().all(|pause| *pause <= PAUSE_MAX));
        let mut course = Patience::new();
        for _ in 0..10_000 {
            assert!(course.next(false).is_some());
        }
        let counted = std::iter::from_fn(|| course.next(true)).count();
        assert!(counted <= pauses.len(), "{counted}");
    }

    #[test]
    fn patience_with_an_end_lasts_no_longer() {
        assert!(!Patience::until(Instant::now()).lasts());
        let begun = Instant::now();
        let mut patience = Patience::until(begun + Duration::from_millis(20));
        while patience.lasts() {}
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(patience.total < LIMIT, "{:?}", patience.total);
    }

    #[test]
    fn a_process_that_waits_for_a_processor_has_had_no_time() {
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "echo; while :; do :; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // From then on it is runnable.
        std::io::Read::read_exact(busy.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let mut patience = Patience::new();
        let counted = (0..20).filter(|_| {
            let before = patience.total;
            patience.lasts_beside([busy.id()]) && patience.total > before
        });
        // At the first look, `echo` may still be in its write.
        assert!(counted.count() <= 1);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let before = patience.total;
        assert!(patience.lasts_beside([u32::MAX]));
        assert!(patience.total > before);
    }
}
