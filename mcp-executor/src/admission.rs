//! Admission of connections that have no session yet. Pure, but for the tokens that evict them.
//!
//! Waiting connections are limited per address or user. A new connection replaces the oldest one of
//! an exhausted share, and if all places are taken, the oldest one of the largest share: an honest
//! client gets its session before that many others arrive.

use mcp_lifecycle_core::lock::Lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::origin::Share;

const SHARE: usize = 32;

const ROOM: usize = 256;

pub(super) const OTHERS_CAME: &str = "others came before it had a session";

const PAUSE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Admission {
    waiting: Lock<VecDeque<Waiting>>,
    refusals: Lock<Refusals>,
}

struct Waiting {
    of: Share,
    leave: CancellationToken,
}

#[derive(Default)]
struct Refusals {
    said: Option<Instant>,
    since: u64,
}

/// A waiting connection's place, until dropped.
pub(super) struct Ticket {
    admission: Arc<Admission>,
    pub(super) leave: CancellationToken,
    pub(super) until: tokio::time::Instant,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A cancelled token marks the place as free.
        self.leave.cancel();
        self.admission
            .waiting
            .lock()
            .retain(|w| !w.leave.is_cancelled());
    }
}

impl Admission {
    pub(super) fn enter(self: &Arc<Self>, share: Share, until: tokio::time::Instant) -> Ticket {
        let leave = CancellationToken::new();
        let mut waiting = self.waiting.lock();
        let of_it = |w: &Waiting| w.of == share;
        let oldest = if waiting.iter().filter(|w| of_it(w)).count() >= SHARE {
            waiting.iter().position(of_it)
        } else if waiting.len() >= ROOM {
            oldest_of_most(&waiting)
        } else {
            None
        };
        let evicted = oldest.and_then(|at| waiting.remove(at));
        waiting.push_back(Waiting {
            of: share,
            leave: leave.clone(),
        });
        drop(waiting);
        if let Some(evicted) = &evicted {
            evicted.leave.cancel();
        }
        Ticket {
            admission: Arc::clone(self),
            leave,
            until,
        }
    }

    /// Counts a refusal. From time to time returns the number since the last report, which limits
    /// log lines.
    pub(super) fn refused(&self, now: Instant) -> Option<u64> {
        let mut refusals = self.refusals.lock();
        refusals.since += 1;
        if refusals.said.is_some_and(|said| now < said + PAUSE) {
            return None;
        }
        refusals.said = Some(now);
        Some(std::mem::take(&mut refusals.since))
    }
}

fn oldest_of_most(waiting: &VecDeque<Waiting>) -> Option<usize> {
    let mut counts = HashMap::new();
    for one in waiting {
        *counts.entry(&one.of).or_insert(0) += 1;
    }
    let most = counts.values().copied().max();
    waiting
        .iter()
        .position(|one| counts.get(&one.of).copied() == most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(admission: &Arc<Admission>, last: u8) -> Ticket {
        let address = Share::Address([10, 0, 0, last].into());
        admission.enter(address, tokio::time::Instant::now())
    }

    #[test]
    fn an_address_takes_its_places_from_itself() {
        let admission = Arc::new(Admission::default());
        let other = enter(&admission, 2);
        let many: Vec<_> = (0..SHARE + 3).map(|_| enter(&admission, 1)).collect();
        let left = many.iter().filter(|t| t.leave.is_cancelled()).count();
        assert_eq!(left, 3);
        assert!(many[0].leave.is_cancelled() && !many[3].leave.is_cancelled());
        assert!(!other.leave.is_cancelled());
        drop(many);
        assert_eq!(admission.waiting.lock().len(), 1);
    }

    #[test]
    fn many_addresses_push_the_oldest_out() {
        let admission = Arc::new(Admission::default());
        let places: Vec<_> = (0..=ROOM)
            .map(|n| enter(&admission, (n % 200) as u8))
            .collect();
        assert!(places[0].leave.is_cancelled() && !places[1].leave.is_cancelled());
    }

    #[test]
    fn who_has_many_places_leaves_before_who_has_few() {
        let admission = Arc::new(Admission::default());
        let few: Vec<_> = (100..116).map(|n| enter(&admission, n)).collect();
        // As many as may be of each address, and far more addresses than there are places.
        let many: Vec<_> = (0..20 * SHARE)
            .map(|n| enter(&admission, (n % 20) as u8))
            .collect();
        assert!(few.iter().all(|ticket| !ticket.leave.is_cancelled()));
        let left = many.iter().filter(|t| t.leave.is_cancelled()).count();
        assert_eq!(left, few.len() + many.len() - ROOM);
    }

    #[test]
    fn a_flood_is_one_line() {
        let admission = Admission::default();
        let now = Instant::now();
        assert_eq!(admission.refused(now), Some(1));
        for _ in 0..1000 {
            assert_eq!(admission.refused(now), None);
        }
        assert_eq!(admission.refused(now + PAUSE), Some(1001));
    }
}
