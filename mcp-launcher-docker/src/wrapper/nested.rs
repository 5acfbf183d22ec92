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

use super::bridge::Bridge;
use super::cli::Cli;
use super::proxy::Proxy;
use crate::container::remove_until_absent;
use crate::control;
use crate::engine::{Condition, Engine, EngineError};
use crate::labels;
use crate::lease::Lease;
use crate::origin::{self, Origin};
use crate::orphans::PARALLEL;

/// How long a create that is under way is waited for before what is known
/// already is ended, and between two looks after that.
const SHORT_CREATE: Duration = Duration::from_millis(300);
const LONG_CREATE: Duration = Duration::from_secs(2);

const UNDER_WAY: &str = "a create is under way in the engine";

/// Without a fence a create may come true after the first look.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// How long the server's processes have, after they were ordered to end, before
/// its containers are ended without their proof.
const PROOF_LIMIT: Duration = Duration::from_secs(2);

/// How long a container has to end that was asked to, where nobody orders its
/// end before: the time of `docker stop`.
const POLITE: Duration = Duration::from_secs(10);

/// How long a look may take whose result somebody waits for.
const LOOK: Duration = Duration::from_secs(1);

/// The pause before a daemon that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// How the containers of a server are found.
#[derive(Debug)]
pub(super) enum Means {
    /// By the API, with a fence around creates.
    Proxy {
        proxy: Proxy,
        engine: Box<Engine>,
        /// By which the proxy reaches it, where it is remote.
        #[expect(dead_code, reason = "kept for its drop")]
        bridge: Option<Bridge>,
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
        }
        let mut patience = SHORT_CREATE;
        let mut may_be_late = matches!(self.means, Means::Cli { .. });
        loop {
            // A list proves nothing while more can come. What it shows is ended
            // all the same: one create that hangs does not save the others.
            let settled = self.settled(patience).await;
            patience = LONG_CREATE;
            let mut found = self.look().await;
            if let (Ok(found), Means::Proxy { .. }) = (&mut found, &self.means) {
                // A daemon that has crashed may list what it has removed: what
                // it has said 404 to is gone, and its id never comes back.
                found.ended.retain(|one| !swept.ended.contains(one));
            }
            match found {
                Ok(found) if found.ended.is_empty() && !settled => {
                    let problem = UNDER_WAY.to_owned();
                    if self.lost.send_replace(Some(problem)).is_none() {
                        warn!("a create of an ended server is still under way");
                    }
                }
                Ok(found) if found.ended.is_empty() => {
                    self.lost.send_replace(None);
                    if std::mem::take(&mut may_be_late) && swept.ended.is_empty() {
                        sleep(SECOND_LOOK).await;
                        continue;
                    }
                    swept.kept = found.kept;
                    return swept;
                }
                Ok(found) => match self.end_politely(&found.ended, launched).await {
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

    /// Whether no create is under way, after so long at the most.
    async fn settled(&self, patience: Duration) -> bool {
        match &self.means {
            Means::Proxy { proxy, .. } => timeout(patience, proxy.fence().empty()).await.is_ok(),
            Means::Cli { .. } => true,
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
            Means::Proxy { engine, proxy, .. } => {
                self.look_at(engine, proxy).await.map_err(|error| Blind {
                    problem: Report(&error).to_string(),
                    no_program: false,
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

    async fn look_at(&self, engine: &Engine, proxy: &Proxy) -> Result<Swept, EngineError> {
        let label = format!("{}={}", labels::LAUNCH, self.launch);
        let mut swept = Swept::default();
        for found in engine.list(&[label]).await? {
            let ends = found.labels.get(labels::ON_END);
            let ends = ends.is_some_and(|value| value == labels::END);
            // Somebody else's, of an image that was made of one of ours.
            let origin = match proxy.has_created(&found.id) {
                true => Origin::Own,
                false => origin::of(engine, &found).await?,
            };
            let remnant = Remnant::container(found.id, found.name);
            match (origin, ends) {
                (Origin::Own, true) => swept.ended.push(remnant),
                (Origin::Own, false) | (Origin::Unknown, _) => swept.kept.push(remnant),
                (Origin::Image, _) => {}
            }
        }
        Ok(swept)
    }

    /// Ends them, those that have no client after they were asked to. One whose
    /// client has gone had the end of its input, and the signal that its client
    /// passed on.
    async fn end_politely(&self, containers: &[Remnant], launched: bool) -> Result<(), String> {
        let Means::Proxy { engine, .. } = &self.means else {
            return self.end(containers).await;
        };
        if !launched || self.force.is_cancelled() {
            return self.end(containers).await;
        }
        let asked = futures_util::future::join_all(containers.iter().map(|container| async {
            let asked = engine.ask_if_detached(&container.id).await;
            (container.clone(), asked.unwrap_or(false))
        }));
        // An engine that is stuck with one of them delays no forced end.
        let asked = tokio::select! {
            asked = asked => asked,
            () = self.force.cancelled() => return self.end(containers).await,
        };
        let (asked, others): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, asked)| *asked);
        let [asked, others] =
            [asked, others].map(|list| list.into_iter().map(|(one, _)| one).collect::<Vec<_>>());
        let left = async {
            for container in &asked {
                if let Ok(mut wait) = engine.wait(&container.id, Condition::NotRunning).await {
                    let _ = wait.code().await;
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

    /// Why the containers live on when this host dies, if they do.
    pub(super) fn survives_the_host(&self) -> Option<&'static str> {
        match &self.means {
            Means::Proxy { proxy, .. } => proxy.survives_the_host(),
            Means::Cli { .. } => Some("the next start ends the container of this command"),
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
        let nested = Arc::clone(self);
        let look = control::spawn(async move { nested.look().await });
        let look = look.map_err(|error| error.to_string())?;
        let has_late = match &self.means {
            Means::Proxy { proxy, .. } => proxy.fence().has_late(),
            Means::Cli { .. } => false,
        };
        let Ok(look) = timeout(LOOK, look).await else {
            // What has been in the way for longer says more.
            let problem = self.lost.borrow().clone();
            return Err(problem.unwrap_or_else(|| match &self.means {
                Means::Proxy { engine, .. } => {
                    format!(
                        "the container engine at {} does not answer",
                        engine.endpoint()
                    )
                }
                Means::Cli { cli, .. } => format!("{} does not answer", cli.program.display()),
            }));
        };
        match look {
            Ok(Ok(found)) if has_late && found.ended.is_empty() => Err(UNDER_WAY.to_owned()),
            Ok(Ok(found)) => Ok(found.ended),
            Ok(Err(blind)) => Err(blind.problem),
            Err(error) => Err(error.to_string()),
        }
    }
}
