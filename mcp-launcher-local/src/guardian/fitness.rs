//! Whether spares are of use: a host whose launches come from threads with attributes of their own (processors,
//! niceness, a label) throws away each one that another thread has made. Pure, but for its log.

use super::surroundings::Surroundings;
use crate::sys;

/// So many launches in a row that no spare fitted, and no more are made.
const MISSES: u32 = 2;

/// What came of the spares of the last launches.
#[derive(Debug, Default)]
pub(super) struct Fitness {
    misses: u32,
    /// What the last spare had that a launch did not take for that reason.
    odd: Option<Surroundings>,
}

impl Fitness {
    /// A launch with the surroundings `now` has `found` a spare, or there was one with other surroundings.
    pub(super) fn launched(&mut self, found: bool, odd: Option<&Surroundings>, now: Surroundings) {
        match odd {
            // A spare that were made would fit.
            _ if found || self.odd.as_ref() == Some(&now) => *self = Self::default(),
            Some(odd) => {
                self.misses += 1;
                let what = odd.difference(&now).unwrap_or_default();
                let misses = self.misses;
                sys::shielded(|| {
                    tracing::debug!(
                        what,
                        misses,
                        "a spare guardian is not as a new one would be"
                    );
                });
                self.odd = Some(odd.clone());
            }
            None => {}
        }
    }

    /// Returns whether more are to be made.
    pub(super) fn is_of_use(&self) -> bool {
        self.misses < MISSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_are_made_that_no_launch_takes() {
        let of = |nice: &str| Surroundings::of("nice value", nice);
        let mut fitness = Fitness::default();
        // A host that has raised a limit throws the spares of before away once.
        fitness.launched(false, Some(&of("0")), of("5"));
        assert!(fitness.is_of_use());
        fitness.launched(true, None, of("5"));
        fitness.launched(false, Some(&of("0")), of("5"));
        fitness.launched(false, None, of("5"));
        assert!(fitness.is_of_use());
        fitness.launched(false, Some(&of("0")), of("5"));
        assert!(!fitness.is_of_use());
        fitness.launched(false, None, of("5"));
        assert!(!fitness.is_of_use());
        // From a thread as that which makes them.
        fitness.launched(false, None, of("0"));
        assert!(fitness.is_of_use());
    }
}
