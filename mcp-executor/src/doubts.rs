use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use mcp_lifecycle_core::launch::ProcessTerminator;
use mcp_lifecycle_core::lock::Lock;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// The first and the longest pause between forced ends of a process, doubling.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Processes that may live on, until they are proven gone: no more than there are permits. While a
/// session has any, the daemon does not report that nothing of it is left.
#[derive(Default)]
pub(super) struct Doubts {
    known: Lock<Vec<Doubt>>,
    less: Notify,
}

struct Doubt {
    session: String,
    proven: Arc<AtomicBool>,
}

impl Doubts {
    pub(super) fn add(&self, session: &str, proven: &Arc<AtomicBool>) {
        let mut known = self.unproven();
        let same = |doubt: &Doubt| Arc::ptr_eq(&doubt.proven, proven);
        if !known.iter().any(same) {
            known.push(Doubt {
                session: session.to_owned(),
                proven: Arc::clone(proven),
            });
        }
    }

    pub(super) fn dispel(&self, proven: &AtomicBool) {
        proven.store(true, Ordering::Release);
        self.less.notify_waiters();
    }

    pub(super) async fn dispelled(&self) {
        loop {
            let less = self.less.notified();
            if self.count() == 0 {
                return;
            }
            less.await;
        }
    }

    pub(super) fn of(&self, session: &str) -> usize {
        let known = self.unproven();
        known.iter().filter(|d| d.session == session).count()
    }

    pub(super) fn count(&self) -> usize {
        self.unproven().len()
    }

    fn unproven(&self) -> MutexGuard<'_, Vec<Doubt>> {
        let mut known = self.known.lock();
        known.retain(|doubt| !doubt.proven.load(Ordering::Acquire));
        known
    }
}

/// Retries the forced end of an unproven process until it is proven gone, then releases its
/// permit: lost evidence may become available again.
pub(super) async fn until_gone(
    terminator: Arc<dyn ProcessTerminator>,
    doubts: Arc<Doubts>,
    proven: Arc<AtomicBool>,
    place: OwnedSemaphorePermit,
) {
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = LONGEST.min(pause * 2);
        // A failed order shows as a missing proof.
        let _ = terminator.force_end().await;
        if terminator.gone().await.is_ok() {
            break;
        }
    }
    tracing::info!(server = %terminator.identity(), "a process in doubt is proven gone");
    doubts.dispel(&proven);
    drop(place);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use mcp_launcher_local::LocalLauncher;
    use mcp_lifecycle_core::launch::{
        ExitStatus, Gone, LaunchContext, Remnant, ServerIdentity, ServerLauncher, ServerSpec,
        StepError, TerminationSemantics,
    };
    use tokio::sync::Semaphore;

    use super::*;

    /// A process whose end has no proof, the first few times.
    #[derive(Debug)]
    struct Evidence {
        of: Arc<dyn ProcessTerminator>,
        lost: AtomicU32,
    }

    #[async_trait]
    impl ProcessTerminator for Evidence {
        fn identity(&self) -> ServerIdentity {
            self.of.identity()
        }

        fn semantics(&self) -> TerminationSemantics {
            self.of.semantics()
        }

        async fn exited(&self) -> ExitStatus {
            self.of.exited().await
        }

        async fn request_end(&self) -> Result<(), StepError> {
            self.of.request_end().await
        }

        async fn force_end(&self) -> Result<(), StepError> {
            self.of.force_end().await
        }

        async fn gone(&self) -> Result<Gone, StepError> {
            let gone = self.of.gone().await;
            let lost = |left: u32| left.checked_sub(1);
            let lost = self
                .lost
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lost);
            match lost {
                Ok(_) => Err(StepError::new(
                    "look for survivors",
                    "no descriptor is free",
                )),
                Err(_) => gone,
            }
        }

        async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
            self.of.survivors().await
        }

        fn kill_now(&self) {
            self.of.kill_now();
        }
    }

    #[tokio::test]
    async fn a_proof_that_was_missing_once_frees_the_place_when_it_comes() {
        let spec = ServerSpec::builder("p", "/bin/cat")
            .cwd("/")
            .build()
            .unwrap();
        let launched = LocalLauncher::new()
            .launch(&spec, &LaunchContext::new())
            .await;
        let of = launched.unwrap().into_parts().terminator;
        let terminator = Arc::new(Evidence {
            of,
            lost: AtomicU32::new(2),
        });
        let (doubts, proven) = (Arc::new(Doubts::default()), Arc::default());
        doubts.add("session", &proven);
        let places = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&places).try_acquire_owned().unwrap();
        tokio::time::pause();
        tokio::spawn(until_gone(terminator, Arc::clone(&doubts), proven, held));
        assert_eq!((places.available_permits(), doubts.count()), (0, 1));
        doubts.dispelled().await;
        let free = tokio::time::timeout(FIRST, places.acquire()).await;
        assert!(free.is_ok());
    }

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
}
