use std::time::Duration;

use futures_util::StreamExt;
use mcp_lifecycle_core::launch::{ErrorChain, Remnant};
use tokio::time::sleep;

use super::{Means, Nested};
use crate::container::remove_until_absent;
use crate::engine::{EngineError, NOT_RUNNING};
use crate::orphans::PARALLEL;

/// Grace of a container after its stop signal, unless a forced end is requested: as for `docker
/// stop`.
const POLITE: Duration = Duration::from_secs(10);

impl Nested {
    /// Ends the containers; those without a client get a stop signal first. The others had the end
    /// of their input and the signal that their client forwarded.
    pub(super) async fn end_politely(
        &self,
        containers: &[Remnant],
        launched: bool,
    ) -> Result<(), String> {
        let Means::Proxy(proxy) = &self.means else {
            return self.end(containers).await;
        };
        let engine = proxy.engine();
        if !launched || self.force.is_cancelled() {
            return self.end(containers).await;
        }
        let asked = futures_util::future::join_all(containers.iter().map(|container| async {
            let asked = engine.ask_if_detached(&container.id).await;
            (container.clone(), asked.unwrap_or(false))
        }));
        // An engine that is stuck with one container must not delay a forced end.
        let asked = tokio::select! {
            asked = asked => asked,
            () = self.force.cancelled() => return self.end(containers).await,
        };
        let (asked, others): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, asked)| *asked);
        let [asked, others] =
            [asked, others].map(|list| list.into_iter().map(|(one, _)| one).collect::<Vec<_>>());
        let left = async {
            for container in &asked {
                if let Ok(mut wait) = engine.wait(&container.id, NOT_RUNNING).await {
                    let _ = wait.select_next_some().await;
                }
            }
        };
        let left = async {
            tokio::select! {
                () = left => {}
                () = self.force.cancelled() => {}
                () = sleep(POLITE) => {}
            }
            self.end(&asked).await
        };
        let (asked, others) = tokio::join!(left, self.end(&others));
        asked.and(others)
    }

    async fn end(&self, containers: &[Remnant]) -> Result<(), String> {
        match &self.means {
            Means::Proxy(proxy) => {
                futures_util::stream::iter(containers)
                    .for_each_concurrent(PARALLEL, |container| async {
                        let told = |failure: Option<&EngineError>| {
                            let failure = failure.map(|error| ErrorChain(error).to_string());
                            self.lost.send_replace(failure);
                        };
                        remove_until_absent(proxy.engine(), &container.id, told).await;
                        proxy.forget(&container.id);
                    })
                    .await;
                Ok(())
            }
            Means::Cli { cli, .. } => cli.remove(containers).await.map_err(|e| e.to_string()),
        }
    }
}
