//! Quotas of one session, and of all sessions of one token. Pure, but for waiting tasks. The
//! numbers are in [`Limits`].

use mcp_lifecycle_core::lock::Lock;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::limits::Limits;

const OWN: usize = 128 * 1024;

/// The quota of the clients with one token, or of one user of this machine.
pub(super) struct Account {
    pub(super) sessions: usize,
    pub(super) processes: usize,
    pub(super) places: Arc<Semaphore>,
    memory: usize,
    used: AtomicUsize,
    freed: Arc<Notify>,
    frames: Lock<Pace>,
}

impl Account {
    pub(super) fn new(limits: &Limits, tokens: usize) -> Arc<Self> {
        // Equal parts leave nothing for others.
        let part = |all: usize| (all / tokens.max(1)).max(1);
        let processes = part(limits.max_processes_in_all).min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            sessions: part(limits.max_sessions),
            processes,
            places: Arc::new(Semaphore::new(processes)),
            memory: limits.max_memory,
            used: AtomicUsize::new(0),
            freed: Arc::default(),
            frames: Lock::new(Pace::new(limits.max_frames_per_second)),
        })
    }

    pub(super) fn memory_used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }
}

pub(super) struct Portion {
    pub(super) account: Arc<Account>,
    memory: usize,
    used: AtomicUsize,
    frames: Lock<Pace>,
}

impl Portion {
    pub(super) fn of(account: &Arc<Account>, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            account: Arc::clone(account),
            memory: limits.max_memory_per_session,
            used: AtomicUsize::new(0),
            frames: Lock::new(Pace::new(limits.max_frames_per_session_and_second)),
        })
    }

    pub(super) fn room(&self) -> usize {
        self.room_beside(self.account.memory_used())
    }

    fn room_beside(&self, taken: usize) -> usize {
        let used = self.used.load(Ordering::SeqCst);
        let shared = self.account.memory.saturating_sub(taken);
        let room = shared.min(self.memory.saturating_sub(used));
        room.max(OWN.saturating_sub(used))
    }

    /// Completes when there may be more room. Enable it before checking again.
    pub(super) fn freed(&self) -> OwnedNotified {
        Arc::clone(&self.account.freed).notified_owned()
    }

    pub(super) fn count_frame(&self, now: Instant) {
        for frames in [&self.frames, &self.account.frames] {
            frames.lock().count(now);
        }
    }

    /// Returns when the next frame may be read; `None` if now.
    pub(super) fn next_frame(&self, now: Instant) -> Option<Instant> {
        let own = self.frames.lock().next(now);
        own.max(self.account.frames.lock().next(now))
    }

    fn try_take(&self, bytes: usize) -> bool {
        let more = |taken| (self.room_beside(taken) >= bytes).then_some(taken + bytes);
        // Atomic, so that no other session takes the same room.
        let taken = &self.account.used;
        let allowed = taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        if allowed.is_ok() {
            self.used.fetch_add(bytes, Ordering::SeqCst);
        }
        allowed.is_ok()
    }

    fn change(&self, from: usize, to: usize) {
        for used in [&self.account.used, &self.used] {
            // Wraps around to subtract.
            used.fetch_add(to.wrapping_sub(from), Ordering::SeqCst);
        }
        if to < from {
            self.account.freed.notify_waiters();
        }
    }
}

/// A rate of frames per second, with a burst of the same size.
struct Pace {
    each: Duration,
    /// The time at which all frames would have arrived at an even pace.
    even: Option<Instant>,
}

impl Pace {
    const BURST: Duration = Duration::from_secs(1);

    fn new(per_second: u32) -> Self {
        let each = Self::BURST / per_second.max(1);
        Self { each, even: None }
    }

    fn count(&mut self, now: Instant) {
        self.even = Some(self.even.map_or(now, |even| even.max(now)) + self.each);
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let next = self.even?.checked_sub(Self::BURST)?;
        (next > now).then_some(next)
    }
}

/// Memory of a session, released on drop.
#[derive(Default)]
pub(super) struct Grant {
    portion: Option<Arc<Portion>>,
    bytes: usize,
}

impl Grant {
    pub(super) fn of(portion: &Arc<Portion>) -> Self {
        Self {
            portion: Some(Arc::clone(portion)),
            bytes: 0,
        }
    }

    /// Counts existing memory, even over the limit.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if let Some(portion) = self.portion.as_ref().filter(|_| before != bytes) {
            portion.change(before, bytes);
        }
    }

    pub(super) fn try_set(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            self.set(bytes);
            return true;
        };
        let allowed = self.portion.as_ref().is_none_or(|it| it.try_take(more));
        if allowed {
            self.bytes = bytes;
        }
        allowed
    }

    /// Reduces it, since these bytes are counted elsewhere now.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.set(self.bytes.saturating_sub(bytes));
    }

    pub(super) fn lacks(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.bytes)
    }

    pub(super) fn is_short(&self) -> bool {
        self.portion.as_ref().is_some_and(|it| it.room() == 0)
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

/// Returns a session with nothing but its guaranteed memory.
#[cfg(test)]
pub(super) fn without_memory() -> Arc<Portion> {
    let limits = Limits {
        max_memory: 0,
        ..Limits::default()
    };
    Portion::of(&Account::new(&limits, 1), &limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            max_memory: 100 * OWN,
            max_memory_per_session: 50 * OWN,
            max_frames_per_second: 30,
            max_frames_per_session_and_second: 20,
            ..Limits::default()
        }
    }

    fn sessions<const N: usize>() -> [Arc<Portion>; N] {
        let account = Account::new(&limits(), 1);
        [(); N].map(|()| Portion::of(&account, &limits()))
    }

    fn grant(portion: &Arc<Portion>, bytes: usize) -> Option<Grant> {
        let mut grant = Grant::of(portion);
        grant.try_set(bytes).then_some(grant)
    }

    #[test]
    fn each_token_has_an_equal_part() {
        let of = |tokens| {
            let account = Account::new(&Limits::default(), tokens);
            (account.sessions, account.processes)
        };
        assert_eq!(of(0), (256, 4096));
        assert_eq!(of(1), (256, 4096));
        assert_eq!(of(3), (85, 1365));
        assert_eq!(of(10_000), (1, 1));
        let limits = Limits {
            max_processes_in_all: usize::MAX,
            ..Limits::default()
        };
        assert_eq!(Account::new(&limits, 1).processes, Semaphore::MAX_PERMITS);
    }

    #[test]
    fn a_session_has_its_quota_and_its_own_beside_others() {
        let [one, two, three] = sessions();
        assert!(grant(&one, 50 * OWN + 1).is_none());
        let held = [&one, &two].map(|it| grant(it, 50 * OWN).unwrap());
        assert_eq!((one.room(), three.room()), (0, OWN));
        assert!(grant(&three, OWN + 1).is_none());
        let own = grant(&three, OWN).unwrap();
        assert_eq!(one.account.memory_used(), 101 * OWN);
        drop((held, own));
        assert_eq!((one.room(), one.account.memory_used()), (50 * OWN, 0));
    }

    #[tokio::test]
    async fn memory_that_is_given_back_wakes_the_sessions_that_wait() {
        let [one, two] = sessions();
        let held = grant(&one, 10 * OWN).unwrap();
        let mut freed = std::pin::pin!(two.freed());
        freed.as_mut().enable();
        drop(held);
        freed.await;
    }

    #[test]
    fn sessions_that_take_at_once_take_no_more_than_there_is() {
        for _ in 0..20 {
            let sessions: [_; 8] = sessions();
            let start = std::sync::Barrier::new(sessions.len());
            let take = |session| {
                start.wait();
                grant(session, 25 * OWN)
            };
            let grants: Vec<_> = std::thread::scope(|scope| {
                let threads = sessions.each_ref().map(|it| scope.spawn(move || take(it)));
                threads.map(|it| it.join().unwrap()).into_iter().collect()
            });
            assert_eq!(grants.iter().flatten().count(), 4);
        }
    }

    #[test]
    fn frames_have_a_pace_of_the_session_and_of_the_token() {
        let [one, two] = sessions();
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        for _ in 0..20 {
            assert_eq!(one.next_frame(now), None);
            one.count_frame(now);
        }
        one.count_frame(now);
        assert_eq!(one.next_frame(now), Some(after(50)));
        assert_eq!(one.next_frame(after(50)), None);
        // Of 30 frames, 21 have come.
        for _ in 0..9 {
            assert_eq!(two.next_frame(now), None);
            two.count_frame(now);
        }
        two.count_frame(now);
        let next = two.next_frame(now).expect("the token has had its frames");
        assert!(next > now && next < after(34));
        // Frames that did not come are not saved for longer than a second.
        let later = after(60_000);
        for _ in 0..21 {
            one.count_frame(later);
        }
        assert!(one.next_frame(later).is_some());
    }
}
