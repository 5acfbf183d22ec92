//! The containers of one server: found by label, ended by policy, proven gone.

mod end;
mod look;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
pub(super) use look::Means;
use mcp_lifecycle_core::launch::Remnant;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::control::CONTROL;
use crate::labels::Mark;
use crate::ledger::Ledger;

/// Wait for a creation in progress, before known containers are ended and between two searches.
const SHORT_CREATE: Duration = Duration::from_millis(300);
const LONG_CREATE: Duration = Duration::from_secs(2);

const UNDER_WAY: &str = "a create is under way in the engine";

const STILL_LISTED: &str = "a container that was removed is still listed";

/// Without a fence a creation may complete after the first search.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// Time from the forced end to the server's proof, after which its containers are ended without it.
const PROOF_LIMIT: Duration = Duration::from_secs(2);

const LOOK: Duration = Duration::from_secs(1);

pub(super) const PAUSE: Duration = Duration::from_millis(500);

pub(super) type End = BoxFuture<'static, ()>;

#[derive(Debug, Clone, Default)]
pub(super) struct Swept {
    pub(super) ended: Vec<Remnant>,
    pub(super) kept: Vec<Remnant>,
}

#[derive(Debug)]
pub(super) struct Nested {
    mark: Mark,
    means: Means,
    done: watch::Sender<Option<Swept>>,
    lost: watch::Sender<Option<String>>,
    /// Cancelled to end them, even without the server's proof.
    force: CancellationToken,
    _ledger: Arc<Ledger>,
}

impl Nested {
    pub(super) fn new(mark: Mark, means: Means, ledger: Arc<Ledger>) -> Self {
        Self {
            mark,
            means,
            done: watch::Sender::new(None),
            lost: watch::Sender::new(None),
            force: CancellationToken::new(),
            _ledger: ledger,
        }
    }

    /// Starts the task that waits for the server's end, a future sent after its launch, and then
    /// ends its containers. A failed launch drops the sender.
    pub(super) fn follow(self: &Arc<Self>) -> std::io::Result<oneshot::Sender<End>> {
        let (sender, server) = oneshot::channel::<End>();
        let nested = Arc::clone(self);
        CONTROL.spawn(async move {
            let server = server.await.ok();
            let launched = server.is_some();
            if let Some(gone) = server {
                nested.wait_for(gone).await;
            }
            let swept = nested.sweep(launched).await;
            let done = nested.done.clone();
            // Dropped first: the receiver may exit at once and must release the ledger.
            drop(nested);
            done.send_replace(Some(swept));
        })?;
        Ok(sender)
    }

    async fn wait_for(&self, mut gone: End) {
        tokio::select! {
            () = &mut gone => {}
            () = self.force.cancelled() => {
                let _ = timeout(PROOF_LIMIT, gone).await;
            }
        }
    }

    /// Ends the containers and returns once that is proven.
    async fn sweep(&self, launched: bool) -> Swept {
        let mut swept = Swept::default();
        if let Means::Proxy(proxy) = &self.means {
            proxy.close();
        }
        let mut patience = SHORT_CREATE;
        let mut may_be_late = matches!(self.means, Means::Cli { .. });
        loop {
            // A list proves nothing while creations are in progress. Listed containers are ended
            // meanwhile, in case one creation hangs.
            let settled = self.means.settled(patience).await;
            patience = LONG_CREATE;
            let mut found = self.means.look(&self.mark).await;
            if let (Ok(found), Means::Proxy(_)) = (&mut found, &self.means) {
                // A daemon that crashed may list removed containers. A 404 proves that they are
                // gone, and IDs are unique.
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
                    // Only a command lists what it has removed.
                    Ok(()) if found.ended.iter().any(|one| swept.ended.contains(one)) => {
                        self.failed(STILL_LISTED.to_owned()).await;
                    }
                    Ok(()) => {
                        for container in found.ended {
                            info!(
                                container = container.id,
                                "container of an ended server ended"
                            );
                            swept.ended.push(container);
                        }
                    }
                    Err(problem) => self.failed(problem).await,
                },
                Err(blind)
                    if swept.ended.is_empty() && self.means.has_nothing(&blind, launched) =>
                {
                    debug!(error = blind.problem, "no containers to look for");
                    return swept;
                }
                Err(blind) => self.failed(blind.problem).await,
            }
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

    pub(super) fn survives_the_host(&self) -> Option<&'static str> {
        self.means.survives_the_host()
    }

    /// Ends them now, with a short wait for the server's proof.
    pub(super) fn force(&self) {
        if let Means::Proxy(proxy) = &self.means {
            proxy.close();
        }
        self.force.cancel();
    }

    pub(super) async fn done(&self) -> Swept {
        let mut done = self.done.subscribe();
        let swept = done.wait_for(Option::is_some).await;
        // `self` holds the sender.
        swept.ok().and_then(|s| s.clone()).unwrap_or_default()
    }

    pub(super) async fn survivors(self: &Arc<Self>) -> Result<Vec<Remnant>, String> {
        if self.done.borrow().is_some() {
            return Ok(Vec::new());
        }
        let nested = Arc::clone(self);
        let look = CONTROL.spawn(async move { nested.means.look(&nested.mark).await });
        let look = look.map_err(|error| error.to_string())?;
        let has_late = self.means.has_late_create();
        let Ok(look) = timeout(LOOK, look).await else {
            // An earlier failure is more informative.
            let problem = self.lost.borrow().clone();
            return Err(problem.unwrap_or_else(|| self.means.is_silent()));
        };
        match look {
            Ok(Ok(found)) if has_late && found.ended.is_empty() => Err(UNDER_WAY.to_owned()),
            Ok(Ok(found)) => Ok(found.ended),
            Ok(Err(blind)) => Err(blind.problem),
            Err(error) => Err(error.to_string()),
        }
    }
}
