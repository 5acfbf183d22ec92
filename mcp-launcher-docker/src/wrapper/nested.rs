//! The containers of one server: found by label, ended by policy, proven gone.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_lifecycle_core::error::Report;
use mcp_lifecycle_core::{ProcessTerminator, Remnant};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::cli::Cli;
use super::proxy::Proxy;
use crate::container::remove_until_absent;
use crate::control;
use crate::engine::Engine;
use crate::labels;
use crate::lease::Lease;
use crate::orphans::PARALLEL;

/// How long a create that is under way may take before that is worth a line in
/// the log.
const LONG_CREATE: Duration = Duration::from_secs(10);

/// Without a fence a create may come true after the first look.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// How long the server's processes have, after they were ordered to end, before
/// its containers are ended without their proof.
const PROOF_LIMIT: Duration = Duration::from_secs(2);

/// The pause before a daemon that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// How the containers of a server are found.
#[derive(Debug)]
pub(super) enum Means {
    /// By the API, with a fence around creates.
    Proxy {
        proxy: Proxy,
        engine: Box<Engine>,
        /// The labels are in the command line as well.
        labelled: bool,
    },
    /// By the command that created them.
    Cli { cli: Cli, keep: bool },
}

/// What became of the containers.
#[derive(Debug, Clone, Default)]
pub(super) struct Swept {
    pub(super) ended: Vec<Remnant>,
    pub(super) kept: Vec<Remnant>,
}

/// A look that told nothing.
#[derive(Debug)]
struct Blind {
    problem: String,
    /// The command that was to look does not exist.
    no_program: bool,
}

/// The containers of one server, and the task that ends them after it.
#[derive(Debug)]
pub(super) struct Nested {
    launch: String,
    means: Means,
    done: watch::Sender<Option<Swept>>,
    /// Why the last look failed.
    lost: watch::Sender<Option<String>>,
    /// The order to end them, whether or not the server is proven gone.
    force: CancellationToken,
    _lease: Arc<Lease>,
}

impl Nested {
    pub(super) fn new(launch: String, means: Means, lease: Arc<Lease>) -> Self {
        Self {
            launch,
            means,
            done: watch::Sender::new(None),
            lost: watch::Sender::new(None),
            force: CancellationToken::new(),
            _lease: lease,
        }
    }

    /// Starts the task that waits for the end of the server and then ends its
    /// containers. A launch that does not come to a server drops the sender.
    pub(super) fn follow(
        self: &Arc<Self>,
    ) -> std::io::Result<oneshot::Sender<Arc<dyn ProcessTerminator>>> {
        let (sender, server) = oneshot::channel::<Arc<dyn ProcessTerminator>>();
        let nested = Arc::clone(self);
        control::spawn(async move {
            let server = server.await.ok();
            if let Some(server) = &server {
                nested.wait_for(&**server).await;
            }
            let swept = nested.sweep(server.is_some()).await;
            nested.done.send_replace(Some(swept));
        })?;
        Ok(sender)
    }

    async fn wait_for(&self, server: &dyn ProcessTerminator) {
        let gone = async {
            while server.gone().await.is_err() {
                sleep(PAUSE).await;
            }
        };
        let mut gone = std::pin::pin!(gone);
        tokio::select! {
            () = &mut gone => {}
            () = self.force.cancelled() => {
                let _ = timeout(PROOF_LIMIT, gone).await;
            }
        }
    }

    /// Ends what is to end, and does not return before that is proven.
    async fn sweep(&self, launched: bool) -> Swept {
        let mut swept = Swept::default();
        if let Means::Proxy { proxy, .. } = &self.means {
            proxy.close();
            let mut empty = std::pin::pin!(proxy.fence().empty());
            // However long: a list proves nothing while more can come.
            if timeout(LONG_CREATE, &mut empty).await.is_err() {
                warn!("a create of an ended server is still under way");
                empty.await;
            }
        }
        let mut may_be_late = matches!(self.means, Means::Cli { .. });
        loop {
            let mut found = self.look().await;
            if let (Ok(found), Means::Proxy { .. }) = (&mut found, &self.means) {
                // A daemon that has crashed may list what it has removed: what
                // it has said 404 to is gone, and its id never comes back.
                found.ended.retain(|one| !swept.ended.contains(one));
            }
            match found {
                Ok(found) if found.ended.is_empty() => {
                    self.lost.send_replace(None);
                    if std::mem::take(&mut may_be_late) && swept.ended.is_empty() {
                        sleep(SECOND_LOOK).await;
                        continue;
                    }
                    swept.kept = found.kept;
                    return swept;
                }
                Ok(found) => match self.end(&found.ended).await {
                    Ok(()) => {
                        for container in found.ended {
                            info!(
                                container = container.id,
                                "container of an ended server ended"
                            );
                            if !swept.ended.contains(&container) {
                                swept.ended.push(container);
                            }
                        }
                    }
                    Err(problem) => self.failed(problem).await,
                },
                Err(blind) if swept.ended.is_empty() && self.has_nothing(&blind, launched) => {
                    debug!(error = blind.problem, "no containers to look for");
                    return swept;
                }
                Err(blind) => self.failed(blind.problem).await,
            }
        }
    }

    /// Whether there can be no container, although a look told nothing and
    /// none has shown anything yet.
    fn has_nothing(&self, blind: &Blind, launched: bool) -> bool {
        match &self.means {
            // What has our labels in its command line is looked for in any
            // case. But it was given the proxy for its engine.
            Means::Proxy { proxy, .. } => !proxy.fence().is_used(),
            // What cannot be run has not run.
            Means::Cli { .. } => blind.no_program && !launched,
        }
    }

    async fn failed(&self, problem: String) {
        if self.lost.send_replace(Some(problem.clone())).is_none() {
            warn!(
                error = problem,
                "containers of an ended server not ended yet"
            );
        }
        sleep(PAUSE).await;
    }

    /// What there is: to be ended, and to be kept.
    async fn look(&self) -> Result<Swept, Blind> {
        match &self.means {
            // Nobody but the proxy gives the label: the engine of a server that
            // never created anything is not even asked.
            Means::Proxy {
                proxy,
                labelled: false,
                ..
            } if !proxy.fence().is_used() => Ok(Swept::default()),
            Means::Proxy { engine, .. } => {
                let label = format!("{}={}", labels::LAUNCH, self.launch);
                let found = engine.list(&[label]).await;
                let found = found.map_err(|error| Blind {
                    problem: Report(&error).to_string(),
                    no_program: false,
                })?;
                let ends = |labels: &std::collections::HashMap<String, String>| {
                    labels.get(labels::ON_END).is_some_and(|v| v == labels::END)
                };
                let (end, keep): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|found| ends(&found.labels));
                let remnants = |found: Vec<crate::engine::Found>| {
                    let remnant = |f: crate::engine::Found| Remnant::container(f.id, f.name);
                    found.into_iter().map(remnant).collect()
                };
                Ok(Swept {
                    ended: remnants(end),
                    kept: remnants(keep),
                })
            }
            Means::Cli { cli, keep } => {
                let found = cli.list(&self.launch).await.map_err(|error| Blind {
                    problem: error.to_string(),
                    no_program: error.kind() == std::io::ErrorKind::NotFound,
                })?;
                Ok(match keep {
                    true => Swept {
                        ended: Vec::new(),
                        kept: found,
                    },
                    false => Swept {
                        ended: found,
                        kept: Vec::new(),
                    },
                })
            }
        }
    }

    async fn end(&self, containers: &[Remnant]) -> Result<(), String> {
        match &self.means {
            Means::Proxy { engine, .. } => {
                futures_util::stream::iter(containers)
                    .for_each_concurrent(PARALLEL, |container| {
                        remove_until_absent(engine, &container.id, |failure| {
                            let failure = failure.map(|error| Report(error).to_string());
                            self.lost.send_replace(failure);
                        })
                    })
                    .await;
                Ok(())
            }
            Means::Cli { cli, .. } => cli.remove(containers).await.map_err(|e| e.to_string()),
        }
    }

    /// Ends them now, without waiting for the server's proof for long.
    pub(super) fn force(&self) {
        if let Means::Proxy { proxy, .. } = &self.means {
            proxy.close();
        }
        self.force.cancel();
    }

    pub(super) async fn done(&self) -> Swept {
        let mut done = self.done.subscribe();
        let swept = done.wait_for(Option::is_some).await;
        // The sender lives in `self`.
        swept.ok().and_then(|s| s.clone()).unwrap_or_default()
    }

    /// What is alive, or why nobody can tell.
    pub(super) async fn survivors(self: &Arc<Self>) -> Result<Vec<Remnant>, String> {
        if self.done.borrow().is_some() {
            return Ok(Vec::new());
        }
        if let Means::Proxy { proxy, .. } = &self.means
            && proxy.fence().has_late()
        {
            return Err("a create is under way in the engine".to_owned());
        }
        let nested = Arc::clone(self);
        let look = control::spawn(async move { nested.look().await });
        let look = look.map_err(|error| error.to_string())?;
        match look.await {
            Ok(Ok(found)) => Ok(found.ended),
            Ok(Err(blind)) => Err(blind.problem),
            Err(error) => Err(error.to_string()),
        }
    }
}
