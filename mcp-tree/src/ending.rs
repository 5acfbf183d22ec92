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

/// The known facts about the end of one tree. Its futures need no runtime, and are cancel safe.
#[derive(Debug, Default)]
pub struct Ending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    exit: Option<ExitStatus>,
    proof: Option<Proof>,
    wakers: BTreeMap<u64, Waker>,
    next_place: u64,
}

impl State {
    pub fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// Returns something once the proof is there, is lost, or waits for a process.
    pub fn over(&self) -> Option<()> {
        self.proof.as_ref().map(drop)
    }

    /// Returns the proof, or why there is none; `None` while it is awaited.
    pub fn outcome(&self) -> Option<Result<Gone, StepError>> {
        let why = match self.proof.as_ref()? {
            Proof::Gone(gone) => return Some(Ok(gone.clone())),
            Proof::Lost(why) => why.clone(),
            Proof::Awaits(_) => return None,
        };
        Some(Err(StepError::new("prove that nothing is left", why)))
    }
}

impl Ending {
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes what is new, and wakes all that wait. The first exit counts, and a proof that
    /// nothing is left stands.
    pub fn publish(&self, exit: Option<ExitStatus>, proof: Option<Proof>) {
        let mut known = self.look();
        let exit = exit.filter(|_| known.exit.is_none());
        let proof = proof.filter(|_| !matches!(known.proof, Some(Proof::Gone(_))));
        if exit.is_some() || proof.is_some() {
            known.exit = known.exit.or(exit);
            known.proof = proof.or(known.proof.take());
            self.wake(known);
        }
    }

    /// Has all that wait look again, for a fact beside this state.
    pub fn wake_all(&self) {
        self.wake(self.look());
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        // Foreign code, so without the lock.
        for waker in wakers.into_values() {
            sys::shielded(|| waker.wake());
        }
    }

    pub fn has_exited(&self) -> bool {
        self.look().exit.is_some()
    }

    /// Clears a lost proof and returns whether there was one. The caller then has to look again.
    pub fn look_again(&self) -> bool {
        let is_lost = |proof: &mut Proof| matches!(proof, Proof::Lost(_));
        self.look().proof.take_if(is_lost).is_some()
    }

    pub fn is_proven(&self) -> bool {
        matches!(self.look().proof, Some(Proof::Gone(_)))
    }

    /// Returns the process that has to end before there is a proof, if known.
    pub fn awaited(&self) -> Option<Remnant> {
        match &self.look().proof {
            Some(Proof::Awaits(process)) => Some(process.clone()),
            _ => None,
        }
    }

    pub async fn exited(&self) -> ExitStatus {
        self.when(State::exit).await
    }

    pub async fn gone(&self) -> Result<Gone, StepError> {
        self.when(State::outcome).await
    }

    /// Completes with the first answer of `ask`, which has the state locked.
    pub fn when<T>(&self, ask: impl Fn(&State) -> Option<T> + Unpin) -> impl Future<Output = T> {
        Waiting {
            ending: self,
            ask,
            place: None,
        }
    }

    /// Blocks until `ask` has an answer, at most for `limit`.
    pub fn wait<T>(&self, limit: Duration, ask: impl Fn(&State) -> Option<T>) -> Option<T> {
        let start = Instant::now();
        let mut state = self.look();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            match ask(&state) {
                None if left.is_zero() => return None,
                None => {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                answer => return answer,
            }
        }
    }

    pub fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Waiting<'a, F> {
    ending: &'a Ending,
    ask: F,
    place: Option<u64>,
}

impl<T, F: Fn(&State) -> Option<T> + Unpin> Future for Waiting<'_, F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.ending.look();
        if let Some(answer) = (self.ask)(&state) {
            return Poll::Ready(answer);
        }
        let place = self.place.unwrap_or(state.next_place);
        state.next_place = state.next_place.max(place + 1);
        state.wakers.insert(place, cx.waker().clone());
        self.place = Some(place);
        Poll::Pending
    }
}

impl<F> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.ending.look().wakers.remove(&place);
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
    fn exit_and_proof_wake_a_task_once_and_no_dropped_one() {
        let (ending, count) = (Ending::new(), Arc::new(Count(AtomicU32::new(0))));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut gone = pin!(ending.gone());
        {
            let mut dropped = pin!(ending.exited());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        for _ in 0..2 {
            assert!(gone.as_mut().poll(&mut cx).is_pending());
        }
        let proof = || Proof::Gone(Gone::proven_by(Evidence::Reaped));
        ending.publish(Some(ExitStatus::Code(3)), Some(proof()));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(gone.as_mut().poll(&mut cx).is_ready());
        ending.publish(Some(ExitStatus::Unknown), Some(proof()));
        assert_eq!(ending.look().exit(), Some(ExitStatus::Code(3)));
    }

    #[test]
    fn a_blocked_thread_is_woken() {
        let ending = Ending::new();
        assert_eq!(ending.wait(Duration::ZERO, State::exit), None);
        std::thread::scope(|scope| {
            let exit = scope.spawn(|| ending.wait(Duration::MAX, State::exit));
            ending.publish(Some(ExitStatus::Signal(9)), None);
            assert_eq!(exit.join().unwrap(), Some(ExitStatus::Signal(9)));
        });
    }
}
