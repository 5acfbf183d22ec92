//! [`Doubts`]: processes whose end was tried and is not proven.

use crate::mutex::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use tokio::sync::Notify;

/// As many are remembered one by one.
const MOST: usize = 4096;

/// Processes that may live on, until they are proven gone.
///
/// A daemon that says "the session is over" says by it that nothing of the session
/// is left; about a session in here it does not.
#[derive(Default)]
pub(super) struct Doubts {
    known: Mutex<Known>,
    /// There is one less.
    less: Notify,
}

#[derive(Default)]
struct Known {
    doubts: Vec<Doubt>,
    /// There have been more: every session is in doubt.
    more: bool,
}

/// One process, by its session.
struct Doubt {
    session: String,
    proven: Arc<AtomicBool>,
}

impl Doubts {
    /// The process is not proven gone, before `proven` says so.
    pub(super) fn add(&self, session: &str, proven: &Arc<AtomicBool>) {
        let mut known = self.unproven();
        let same = |doubt: &Doubt| Arc::ptr_eq(&doubt.proven, proven);
        if known.doubts.iter().any(same) {
            return;
        }
        if known.doubts.len() >= MOST {
            known.more = true;
            return;
        }
        known.doubts.push(Doubt {
            session: session.to_owned(),
            proven: Arc::clone(proven),
        });
    }

    /// The process is proven gone, in doubt or not.
    pub(super) fn dispel(&self, proven: &AtomicBool) {
        proven.store(true, Ordering::Release);
        self.less.notify_waiters();
    }

    /// Completes when no process is in doubt; never, when there were too many to know.
    pub(super) async fn dispelled(&self) {
        loop {
            let less = self.less.notified();
            if self.count() == 0 {
                return;
            }
            less.await;
        }
    }

    /// How many processes of this session are in doubt.
    pub(super) fn of(&self, session: &str) -> usize {
        let known = self.unproven();
        let same = known.doubts.iter().filter(|d| d.session == session);
        same.count() + usize::from(known.more)
    }

    /// How many processes are in doubt, at least.
    pub(super) fn count(&self) -> usize {
        let known = self.unproven();
        known.doubts.len() + usize::from(known.more)
    }

    fn unproven(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock();
        known
            .doubts
            .retain(|doubt| !doubt.proven.load(Ordering::Acquire));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_lasts_until_the_proof_and_is_one() {
        let doubts = Doubts::default();
        let (one, other) = (Arc::default(), Arc::default());
        doubts.add("a", &one);
        doubts.add("a", &one);
        doubts.add("b", &other);
        assert_eq!((doubts.of("a"), doubts.of("c"), doubts.count()), (1, 0, 2));
        doubts.dispel(&one);
        assert_eq!((doubts.of("a"), doubts.of("b"), doubts.count()), (0, 1, 1));
    }

    #[test]
    fn too_many_to_remember_leave_no_session_without_doubt() {
        let doubts = Doubts::default();
        for _ in 0..=MOST {
            doubts.add("a", &Arc::default());
        }
        assert_eq!((doubts.of("b"), doubts.count()), (1, MOST + 1));
    }
}
