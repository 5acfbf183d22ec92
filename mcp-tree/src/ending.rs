//! The end of a tree, published by the watcher's thread to waiting threads and tasks.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{ExitStatus, Gone, Remnant, StepError};

use crate::conclusion::Proof;
use crate::sys;

#[cfg(unix)]
pub fn exit_status(status: mcp_guardian::exit::ExitStatus) -> ExitStatus {
    use mcp_guardian::exit::ExitStatus as Process;
    match status {
        Process::Code(code) => ExitStatus::Code(code),
        Process::Signal(signal) => ExitStatus::Signal(signal),
        Process::Unknown => ExitStatus::Unknown,
    }
}

/// The known facts about the end of one tree. The futures need no runtime, and are cancel safe.
#[derive(Debug, Default)]
pub struct Ending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    pub exit: Option<ExitStatus>,
    pub proof: Option<Proof>,
    wakers: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

impl Ending {
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes what is new, and wakes all that wait. The first exit counts, and a proof that
    /// nothing is left stands.
    pub fn publish(&self, exit: Option<ExitStatus>, proof: Option<Proof>) {
        let mut known = self.lock();
        let exit = exit.filter(|_| known.exit.is_none());
        let proof = proof.filter(|_| !matches!(known.proof, Some(Proof::Gone(_))));
        if exit.is_none() && proof.is_none() {
            return;
        }
        known.exit = known.exit.or(exit);
        known.proof = proof.or(known.proof.take());
        self.wake(known);
    }

    /// Has all that wait look again, at a fact beside this state.
    pub fn note(&self) {
        self.wake(self.lock());
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        for waker in wakers.into_values() {
            sys::shielded(|| waker.wake());
        }
    }

    pub fn has_exited(&self) -> bool {
        self.lock().exit.is_some()
    }

    pub fn is_over(&self) -> bool {
        self.lock().proof.is_some()
    }

    /// Clears a lost proof and returns whether there was one. The caller then has to look again.
    pub fn look_again(&self) -> bool {
        self.lock()
            .proof
            .take_if(|proof| matches!(proof, Proof::Lost(_)))
            .is_some()
    }

    pub fn is_proven(&self) -> bool {
        matches!(self.lock().proof, Some(Proof::Gone(_)))
    }

    pub async fn exited(&self) -> ExitStatus {
        self.when(|state| state.exit).await
    }

    /// Returns the process that has to end before there is a proof, if known.
    pub fn awaited(&self) -> Option<Remnant> {
        match &self.lock().proof {
            Some(Proof::Awaits(process)) => Some(process.clone()),
            _ => None,
        }
    }

    pub async fn gone(&self) -> Result<Gone, StepError> {
        self.when(State::outcome).await
    }

    pub async fn over(&self) {
        self.when(|state| state.proof.as_ref().map(drop)).await;
    }

    /// Completes with the first answer of `look`, which must be quick: the state is locked.
    pub fn when<T>(&self, look: impl Fn(&State) -> Option<T> + Unpin) -> impl Future<Output = T> {
        Waiting {
            ending: self,
            look,
            place: None,
        }
    }

    /// Blocks until `look` has an answer, at most for `limit`.
    pub fn wait<T>(&self, limit: Duration, look: impl Fn(&State) -> Option<T>) -> Option<T> {
        let end = Instant::now().checked_add(limit);
        let mut state = self.lock();
        loop {
            if let Some(answer) = look(&state) {
                return Some(answer);
            }
            let left = end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the proof, or why there is none; `None` while it is awaited.
    pub fn outcome(&self) -> Option<Result<Gone, StepError>> {
        match self.proof.as_ref()? {
            Proof::Gone(gone) => Some(Ok(gone.clone())),
            Proof::Lost(why) => Some(Err(StepError::new(
                "prove that nothing is left",
                why.clone(),
            ))),
            Proof::Awaits(_) => None,
        }
    }
}

struct Waiting<'a, F> {
    ending: &'a Ending,
    look: F,
    place: Option<u64>,
}

impl<T, F: Fn(&State) -> Option<T> + Unpin> Future for Waiting<'_, F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.ending.lock();
        if let Some(answer) = (self.look)(&state) {
            return Poll::Ready(answer);
        }
        let place = self.place.unwrap_or(state.next_waiter);
        state.next_waiter = state.next_waiter.max(place + 1);
        state.wakers.insert(place, cx.waker().clone());
        self.place = Some(place);
        Poll::Pending
    }
}

impl<F> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.ending.lock().wakers.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use mcp_lifecycle_core::launch::Evidence;

    use super::*;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn exit_and_proof_at_once_wake_a_task_once() {
        let (ending, count) = (Ending::new(), Arc::new(Count(AtomicU32::new(0))));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut gone = pin!(ending.gone());
        {
            let mut dropped = pin!(ending.over());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        for _ in 0..2 {
            assert!(gone.as_mut().poll(&mut cx).is_pending());
        }
        let proof = Proof::Gone(Gone::proven_by(Evidence::Reaped));
        ending.publish(Some(ExitStatus::Code(3)), Some(proof));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(gone.as_mut().poll(&mut cx).is_ready());
        ending.publish(Some(ExitStatus::Unknown), None);
        let exit = ending.wait(Duration::ZERO, |state| state.exit);
        assert_eq!(exit, Some(ExitStatus::Code(3)));
    }

    #[test]
    fn a_blocked_thread_is_woken() {
        let ending = Ending::new();
        assert_eq!(ending.wait(Duration::ZERO, |state| state.exit), None);
        std::thread::scope(|scope| {
            let exit = scope.spawn(|| ending.wait(Duration::MAX, |state| state.exit));
            ending.publish(Some(ExitStatus::Signal(9)), None);
            assert_eq!(exit.join().unwrap(), Some(ExitStatus::Signal(9)));
        });
    }
}
