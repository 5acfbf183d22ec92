//! [`Places`]: what a process takes until it is proven gone.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mcp_lifecycle_core::launch::ProcessTerminator;
use tokio::sync::OwnedSemaphorePermit;

use super::doubts::Doubts;

/// The pauses between two orders to end the same process: each twice the one before.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Its place among all processes, and among those of its share.
pub(super) type Places = [OwnedSemaphorePermit; 2];

/// Repeats the forced end of a process that is in doubt until it is proven gone, and
/// gives its places back then: evidence that was lost once may be had again.
pub(super) async fn until_gone(
    terminator: Arc<dyn ProcessTerminator>,
    doubts: Arc<Doubts>,
    proven: Arc<AtomicBool>,
    places: Places,
) {
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = LONGEST.min(pause * 2);
        // An order that cannot be given says so by the missing proof.
        let _ = terminator.force_end().await;
        if terminator.gone().await.is_ok() {
            break;
        }
    }
    tracing::info!(server = %terminator.identity(), "a process in doubt is proven gone");
    doubts.dispel(&proven);
    drop(places);
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
        let places = Arc::new(Semaphore::new(2));
        let place = || Arc::clone(&places).try_acquire_owned().unwrap();
        let held = [place(), place()];
        tokio::time::pause();
        tokio::spawn(until_gone(terminator, Arc::clone(&doubts), proven, held));
        assert_eq!((places.available_permits(), doubts.count()), (0, 1));
        doubts.dispelled().await;
        let both = tokio::time::timeout(FIRST, places.acquire_many(2)).await;
        assert!(both.is_ok());
    }
}
