//! [`Budget`]: the memory that all clients share. Pure, but for who waits.
//!
//! A client may take as much again as is free. So `n` clients that take all they
//! can get have a share of `1 / (n + 1)` each, and as much is left for one that
//! comes later; nobody has to be counted. What others of the same token, address or user
//! have counts by half as its own: many sessions of one get it little more than one
//! does. A little is everybody's own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::{Notified, OwnedNotified};

use super::standing::Frames;
use crate::mutex::Mutex;

/// The memory that a client always has, in bytes.
const OWN: usize = 128 * 1024;

/// The memory of the daemon that clients may fill.
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Somebody was refused and waits. Whoever waits sets it before it looks once
    /// more, whoever gives back looks at it after that: one sees the other.
    wanted: AtomicBool,
    /// Those who wait, each once, in turns.
    waiting: Mutex<VecDeque<Weak<Portion>>>,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            waiting: Mutex::default(),
        })
    }

    /// Bytes that are taken now.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Tells those who have the room now that they wait for, and nobody else.
    fn tell(&self) {
        let mut waiting = self.waiting.lock();
        for _ in 0..waiting.len() {
            let Some(portion) = waiting.pop_front().and_then(|it| it.upgrade()) else {
                continue;
            };
            let wants = portion.wants.load(Ordering::SeqCst);
            if portion.room() < wants {
                waiting.push_back(Arc::downgrade(&portion));
            } else {
                portion.wants.store(0, Ordering::SeqCst);
                portion.freed.notify_waiters();
            }
        }
        self.wanted.store(!waiting.is_empty(), Ordering::SeqCst);
    }
}

/// The memory that one client has taken.
pub(super) struct Portion {
    budget: Arc<Budget>,
    /// The bytes that all clients of its share have.
    kin: Arc<AtomicUsize>,
    /// The unfinished frames of its share.
    frames: Arc<Frames>,
    used: AtomicUsize,
    /// It waits for so many bytes; for none if this is 0.
    wants: AtomicUsize,
    freed: Arc<Notify>,
}

impl Portion {
    /// For a client, beside this other one of its share.
    pub(super) fn of(budget: &Arc<Budget>, kin: Option<&Self>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            kin: kin.map_or_else(Arc::default, |other| Arc::clone(&other.kin)),
            frames: kin.map_or_else(Arc::default, |other| Arc::clone(&other.frames)),
            used: AtomicUsize::new(0),
            wants: AtomicUsize::new(0),
            freed: Arc::default(),
        })
    }

    /// How much more this client may take now.
    pub(super) fn room(&self) -> usize {
        self.room_beside(self.budget.used())
    }

    /// Bytes that all clients of its share have taken.
    pub(super) fn used_by_kin(&self) -> usize {
        self.kin.load(Ordering::SeqCst)
    }

    /// The unfinished frames of all clients of its share.
    pub(super) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// As [`room`](Self::room), where so much is taken in all.
    fn room_beside(&self, taken: usize) -> usize {
        let used = self.used.load(Ordering::SeqCst);
        let all = self.used_by_kin();
        let free = self.budget.limit.saturating_sub(taken);
        let fair = free.saturating_sub((used + all) / 2);
        fair.max(OWN.saturating_sub(used))
    }

    /// There may be as much room as was [wanted](Self::want).
    pub(super) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// As [`freed`](Self::freed).
    pub(super) fn freed_owned(&self) -> OwnedNotified {
        Arc::clone(&self.freed).notified_owned()
    }

    /// Has this client told when it has room for so many bytes. Look again after it.
    pub(super) fn want(self: &Arc<Self>, bytes: usize) {
        let bytes = bytes.max(1);
        let mut waiting = self.budget.waiting.lock();
        match self.wants.load(Ordering::SeqCst) {
            0 => {
                self.wants.store(bytes, Ordering::SeqCst);
                waiting.push_back(Arc::downgrade(self));
            }
            before => self.wants.store(before.min(bytes), Ordering::SeqCst),
        }
        self.budget.wanted.store(true, Ordering::SeqCst);
    }

    /// Takes so many bytes, unless that is more than this client may.
    fn try_take(&self, bytes: usize) -> bool {
        let taken = &self.budget.used;
        let more = |taken| (self.room_beside(taken) >= bytes).then_some(taken + bytes);
        // Nobody else takes the same room meanwhile.
        let allowed = taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        if allowed.is_ok() {
            self.kin.fetch_add(bytes, Ordering::SeqCst);
            self.used.fetch_add(bytes, Ordering::SeqCst);
        }
        allowed.is_ok()
    }

    fn change(&self, from: usize, to: usize) {
        for used in [&self.budget.used, &*self.kin, &self.used] {
            // Wraps where it becomes less.
            used.fetch_add(to.wrapping_sub(from), Ordering::SeqCst);
        }
        if to < from && self.budget.wanted.load(Ordering::SeqCst) {
            self.budget.tell();
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
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            self.set(bytes);
            return true;
        };
        let allowed = self.share.as_ref().is_none_or(|it| it.try_take(more));
        if allowed {
            self.bytes = bytes;
        }
        allowed
    }

    /// So many of these bytes are counted elsewhere from now on.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.set(self.bytes.saturating_sub(bytes));
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much is missing for it to be this large.
    pub(super) fn lacks(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.bytes)
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
        let used = budget.used.load(Ordering::SeqCst);
        assert!(used <= LIMIT + 300 * OWN, "{used}");
        drop(grants);
        assert_eq!(budget.used.load(Ordering::SeqCst), 0);
        assert_eq!(shares[0].used.load(Ordering::SeqCst), 0);
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
        other.want(1);
        drop(held);
        freed.await;
    }

    #[tokio::test]
    async fn only_those_are_told_who_have_room() {
        let budget = Budget::new(LIMIT);
        let (one, other) = (Portion::of(&budget, None), Portion::of(&budget, None));
        let (mut held, mut others) = (greedy(&one), greedy(&other));
        others.set(others.bytes * 2);
        let mut woken = [&one, &other].map(|it| Box::pin(it.freed_owned()));
        for (it, freed) in [&one, &other].into_iter().zip(&mut woken) {
            freed.as_mut().enable();
            it.want(OWN / 2);
        }
        // Too little for the first, and the second is far over its share.
        held.set(held.bytes - OWN / 8);
        assert!(!woken[0].as_mut().enable() && !woken[1].as_mut().enable());
        // It is told once, however often more comes.
        held.set(OWN * 5);
        assert!(woken[0].as_mut().enable() && !woken[1].as_mut().enable());
        assert_eq!(budget.waiting.lock().len(), 1);
        drop((held, others));
        assert!(woken[1].as_mut().enable());
        assert!(!budget.wanted.load(Ordering::SeqCst));
    }

    #[test]
    fn many_who_take_at_once_take_no_more_than_there_is() {
        let budget = Budget::new(LIMIT);
        for _ in 0..20 {
            let shares: Vec<_> = (0..8).map(|_| Portion::of(&budget, None)).collect();
            let start = std::sync::Barrier::new(shares.len());
            let grants: Vec<Grant> = std::thread::scope(|scope| {
                let take = |share| {
                    start.wait();
                    let mut grant = Grant::of(share);
                    grant.try_set(LIMIT / 4);
                    grant
                };
                let threads: Vec<_> = shares
                    .iter()
                    .map(|s| scope.spawn(move || take(s)))
                    .collect();
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            let taken = grants.iter().filter(|grant| grant.bytes > 0);
            assert_eq!(taken.count(), 4);
        }
    }
}
