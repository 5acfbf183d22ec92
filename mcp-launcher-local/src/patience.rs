//! The time to look again while processes come and go.
//!
//! What counts is not the clock, which runs on while a busy machine lets nobody run: it is the pauses between looks, and
//! only those in which whoever is waited for could have gone on.

use std::thread;
use std::time::{Duration, Instant};

use crate::sys::stat::Stat;

/// An exec takes a millisecond; a build next door starts a thousand processes in a second. Who waits for a proof waits a
/// little longer, and is told why there is none.
const LIMIT: Duration = Duration::from_millis(1500);

/// So long at most in all, on whatever machine.
const LONGEST: Duration = Duration::from_millis(16_500);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(16);

/// Pauses between looks, until it has been long enough.
pub(crate) struct Patience {
    end: Instant,
    course: Course,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            end: Instant::now() + LONGEST,
            course: Course::new(),
        }
    }

    /// One that lasts no longer than until then, however long anybody waits for a processor.
    pub(crate) fn until(end: Instant) -> Self {
        let mut patience = Self::new();
        patience.end = patience.end.min(end);
        patience
    }

    /// Sleeps a little, longer each time; `false` when it has been long enough.
    pub(crate) fn lasts(&mut self) -> bool {
        self.lasts_beside([])
    }

    /// The same while these processes are waited for: as long as one of them waits for a processor itself, it has had no time.
    pub(crate) fn lasts_beside(&mut self, processes: impl IntoIterator<Item = u32>) -> bool {
        let waits = |pid| Stat::read(pid).is_ok_and(|stat| stat.is_some_and(|it| it.state == 'R'));
        let counts = !processes.into_iter().any(waits);
        let pause = self.course.next(counts);
        let pause = pause.filter(|_| Instant::now() < self.end);
        pause.map(thread::sleep).is_some()
    }
}

/// The pauses so far. Pure.
struct Course {
    pause: Duration,
    /// Of those that count.
    total: Duration,
}

impl Course {
    fn new() -> Self {
        Self {
            pause: Duration::from_micros(100),
            total: Duration::ZERO,
        }
    }

    /// The next pause; `None` when there were enough that count.
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
        let mut course = Course::new();
        let pauses: Vec<_> = std::iter::from_fn(|| course.next(true)).collect();
        let total: Duration = pauses.iter().sum();
        assert!(total >= LIMIT && total < LIMIT + PAUSE_MAX, "{total:?}");
        assert!(pauses.is_sorted() && pauses.iter().all(|pause| *pause <= PAUSE_MAX));
        let mut course = Course::new();
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
        assert!(patience.course.total < LIMIT, "{:?}", patience.course.total);
    }

    #[test]
    fn a_process_that_waits_for_a_processor_has_had_no_time() {
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "echo; while :; do :; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // From then on it runs, or waits to.
        std::io::Read::read_exact(busy.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let mut patience = Patience::new();
        let counted = (0..20).filter(|_| {
            let before = patience.course.total;
            patience.lasts_beside([busy.id()]) && patience.course.total > before
        });
        // The write of the word may not have returned at the first look.
        assert!(counted.count() <= 1);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let before = patience.course.total;
        assert!(patience.lasts_beside([u32::MAX]));
        assert!(patience.course.total > before);
    }
}
