//! [`Budget`]: the memory that all clients share. Pure, but for who waits.
//!
//! A client may take as much again as is free. So `n` clients that take all they
//! can get have a share of `1 / (n + 1)` each, and as much is left for one that
//! comes later; nobody has to be counted. What others of the same address or user
//! have counts by half as its own: many sessions of one get it little more than one
//! does. A little is everybody's own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// What a client always has, in bytes.
const OWN: usize = 128 * 1024;

/// The memory of the daemon that clients may fill.
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Somebody was refused and waits.
    wanted: AtomicBool,
    freed: Notify,
    connections: Mutex<Vec<Waker>>,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            freed: Notify::new(),
            connections: Mutex::default(),
        })
    }

    /// Bytes that are taken now.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }
}

/// What one client has taken.
pub(super) struct Portion {
    budget: Arc<Budget>,
    /// What all clients of its address or user have.
    kin: Arc<AtomicUsize>,
    used: AtomicUsize,
}

impl Portion {
    /// For a client, beside this other one of its address or user.
    pub(super) fn of(budget: &Arc<Budget>, kin: Option<&Self>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            kin: kin.map_or_else(Arc::default, |other| Arc::clone(&other.kin)),
            used: AtomicUsize::new(0),
        })
    }

    /// How much more this client may take now.
    pub(super) fn room(&self) -> usize {
        let used = self.used.load(Ordering::Relaxed);
        let all = self.kin.load(Ordering::Relaxed);
        let fair = self.budget.free().saturating_sub((used + all) / 2);
        fair.max(OWN.saturating_sub(used))
    }

    /// There may be more room, when it was [wanted](Self::want) before.
    pub(super) fn freed(&self) -> Notified<'_> {
        self.budget.freed.notified()
    }

    /// Has those told who wait for room. Look again after it.
    pub(super) fn want(&self) {
        self.budget.wanted.store(true, Ordering::Release);
    }

    /// Wakes this task when there may be more room.
    pub(super) fn wake_when_freed(&self, waker: &Waker) {
        let connections = &self.budget.connections;
        let mut waiting = connections.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        drop(waiting);
        self.want();
    }

    fn change(&self, from: usize, to: usize) {
        let budget = &self.budget;
        let counts = [&budget.used, &*self.kin, &self.used];
        if to >= from {
            counts.map(|used| used.fetch_add(to - from, Ordering::Relaxed));
            return;
        }
        counts.map(|used| used.fetch_sub(from - to, Ordering::Relaxed));
        if budget.wanted.swap(false, Ordering::AcqRel) {
            budget.freed.notify_waiters();
            let connections = &budget.connections;
            let waiting = {
                let mut waiting = connections.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *waiting)
            };
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// A part of a client's portion, given back when it is dropped.
#[derive(Default)]
pub(super) struct Grant {
    share: Option<Arc<Portion>>,
    bytes: usize,
}

impl Grant {
    /// Of nothing yet.
    pub(super) fn of(share: &Arc<Portion>) -> Self {
        Self {
            share: Some(Arc::clone(share)),
            bytes: 0,
        }
    }

    /// Counts what is there already, allowed or not.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if let Some(share) = self.share.as_ref().filter(|_| before != bytes) {
            share.change(before, bytes);
        }
    }

    /// Makes it this large, unless that is more than its client may take.
    pub(super) fn try_set(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let allowed = more == 0 || self.share.as_ref().is_none_or(|s| s.room() >= more);
        if allowed {
            self.set(bytes);
        }
        allowed
    }

    /// Whether its client has taken all that it may.
    pub(super) fn is_short(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.room() == 0)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Grant({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100 * OWN;

    /// Takes all that can be had.
    fn greedy(share: &Arc<Portion>) -> Grant {
        let mut grant = Grant::of(share);
        let mut bytes = 0;
        while grant.try_set(bytes + OWN / 4) {
            bytes += OWN / 4;
        }
        grant
    }

    #[test]
    fn whoever_comes_last_gets_as_much_as_those_before() {
        let budget = Budget::new(LIMIT);
        let shares: Vec<_> = (0..9).map(|_| Portion::of(&budget, None)).collect();
        let mut grants: Vec<_> = shares.iter().map(greedy).collect();
        // The first of them give back until they may have what they have.
        for _ in 0..50 {
            for (share, grant) in shares.iter().zip(&mut grants) {
                *grant = Grant::default();
                *grant = greedy(share);
            }
        }
        let (least, most) = (
            grants.iter().map(|g| g.bytes).min(),
            grants.iter().map(|g| g.bytes).max(),
        );
        assert!(
            least.unwrap() * 4 >= LIMIT / 10 * 3,
            "{least:?} to {most:?}"
        );
        let late = Portion::of(&budget, None);
        assert!(late.room() * 4 >= LIMIT / 10 * 3, "{}", late.room());
    }

    #[test]
    fn everybody_has_a_little_and_all_of_it_comes_back() {
        let budget = Budget::new(LIMIT);
        let shares: Vec<_> = (0..300).map(|_| Portion::of(&budget, None)).collect();
        let grants: Vec<_> = shares.iter().map(greedy).collect();
        assert!(grants.iter().all(|grant| grant.bytes >= OWN));
        let used = budget.used.load(Ordering::Relaxed);
        assert!(used <= LIMIT + 300 * OWN, "{used}");
        drop(grants);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert_eq!(shares[0].used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_sessions_of_one_address_leave_others_their_part_and_each_other_something() {
        let budget = Budget::new(LIMIT);
        let first = Portion::of(&budget, None);
        let mut shares = vec![Arc::clone(&first)];
        shares.extend((1..50).map(|_| Portion::of(&budget, Some(&first))));
        let mut grants: Vec<_> = shares.iter().map(greedy).collect();
        for _ in 0..50 {
            for (share, grant) in shares.iter().zip(&mut grants) {
                *grant = Grant::default();
                *grant = greedy(share);
            }
        }
        let all: usize = grants.iter().map(|grant| grant.bytes).sum();
        assert!(all < LIMIT * 3 / 4, "{all}");
        let stranger = Portion::of(&budget, None);
        assert!(stranger.room() > LIMIT / 4, "{}", stranger.room());
        // One alone has as much as ever, and leaves its kin a good part of it.
        drop(grants);
        let alone = greedy(&first);
        assert!(alone.bytes > LIMIT / 2 - OWN, "{}", alone.bytes);
        assert!(shares[1].room() > LIMIT / 5, "{}", shares[1].room());
    }

    #[tokio::test]
    async fn who_waits_is_told_when_something_was_given_back() {
        let budget = Budget::new(LIMIT);
        let (one, other) = (Portion::of(&budget, None), Portion::of(&budget, None));
        let held = greedy(&one);
        let mut freed = std::pin::pin!(other.freed());
        freed.as_mut().enable();
        other.want();
        drop(held);
        freed.await;
    }
}
