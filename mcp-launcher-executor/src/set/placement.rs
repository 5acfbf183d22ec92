//! Which member takes the next process. No clock, no I/O.

use std::cmp::Ordering;

/// A member as placement sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) verdict: Verdict,
    /// Processes that run there, or are being started.
    pub(super) running: u32,
    /// How many may run there.
    pub(super) capacity: u32,
}

/// Whether a member may take a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It may.
    Suitable,
    /// It failed lately: it is asked when nobody else is left.
    LastResort,
    /// It must not: wrong labels, draining, full.
    Unsuitable,
}

/// The position of the member to ask: suitable ones before last resorts, then
/// the lowest share of the capacity in use, then the first.
pub(super) fn choose(candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
    candidates
        .enumerate()
        .filter(|(_, candidate)| {
            candidate.verdict != Verdict::Unsuitable && candidate.running < candidate.capacity
        })
        .min_by(|(_, one), (_, other)| {
            one.verdict
                .cmp(&other.verdict)
                .then_with(|| by_load(one, other))
        })
        .map(|(index, _)| index)
}

/// By the share of the capacity in use, compared without division.
fn by_load(one: &Candidate, other: &Candidate) -> Ordering {
    let share = |a: &Candidate, b: &Candidate| u64::from(a.running) * u64::from(b.capacity);
    share(one, other).cmp(&share(other, one))
}

#[cfg(test)]
mod tests {
    use super::Verdict::{LastResort, Suitable, Unsuitable};
    use super::*;

    fn chosen(candidates: &[(Verdict, u32, u32)]) -> Option<usize> {
        choose(
            candidates
                .iter()
                .map(|&(verdict, running, capacity)| Candidate {
                    verdict,
                    running,
                    capacity,
                }),
        )
    }

    #[test]
    fn the_lowest_share_of_capacity_wins_and_the_first_of_equals() {
        assert_eq!(chosen(&[(Suitable, 2, 4), (Suitable, 3, 8)]), Some(1));
        assert_eq!(chosen(&[(Suitable, 1, 4), (Suitable, 2, 8)]), Some(0));
    }

    #[test]
    fn full_and_unsuitable_members_are_passed_over() {
        assert_eq!(chosen(&[(Suitable, 4, 4), (Unsuitable, 0, 4)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_member_that_failed_is_asked_last_however_idle_it_is() {
        assert_eq!(chosen(&[(LastResort, 0, 4), (Suitable, 3, 4)]), Some(1));
        assert_eq!(chosen(&[(LastResort, 0, 4), (Suitable, 4, 4)]), Some(0));
    }
}
