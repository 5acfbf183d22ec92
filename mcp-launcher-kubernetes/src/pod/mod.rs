//! One pod that we launched: what is known of it, and the tasks that own it.
//!
//! ```text
//!   attach ──▶ keep ──terminated──▶ DELETE grace 0 ──DELETED──▶ Gone (proven)
//!               │  └──── deleted by force ────────────────────▶ unproven, with node and container
//!               └─ force (force_end, kill_now) ──▶ DELETE grace 1 ──▶ as above
//! ```
//!
//! All on the control thread, so that neither the caller's cancellation nor the end of its
//! runtime interrupts them.

mod admitted;
mod attach;
mod come_up;
mod decide;
mod facts;
mod keep;
mod launch;
mod progress;
mod terminator;

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

pub(crate) use attach::KEEP_ALIVE;
#[cfg(test)]
pub(crate) use decide::end;
pub(crate) use decide::{End, Failure, Lost, Object, Seen};
pub(crate) use facts::{Facts, SERVER};
pub(crate) use keep::{remove_secret, undo};
pub(crate) use launch::{Job, LATE_CREATE, launch, prepare};
pub(crate) use terminator::semantics;

use crate::cluster::{Cluster, Entry};
use crate::lease::Held;

/// How long after its start a server's deletion waits for its kubelet's first word of it.
const TOLD: Duration = Duration::from_secs(10);

/// How long it waits once the end is ordered by force: a kubelet says it once a second.
const TOLD_BY_FORCE: Duration = Duration::from_millis(1500);

/// Knowledge of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The exit status of its server.
    pub(crate) exit: Option<ExitStatus>,
    /// Why its deletion was refused, the last time.
    pub(crate) refused: Option<String>,
    /// Its end: the evidence of the proof, or why there can be none any more.
    pub(crate) end: Option<Result<&'static str, String>>,
}

/// A pod that was created by us, shared by its tasks and its terminator.
#[derive(Debug)]
pub(crate) struct LivePod {
    pub(crate) name: String,
    pub(crate) uid: String,
    cluster: Arc<Cluster>,
    entry: Entry,
    supervised: bool,
    /// Seconds between the request to end and the kill.
    grace: u32,
    known: channel::Sender<Known>,
    /// When its streams were attached.
    begun: Instant,
    /// Kept until the pod is gone.
    lease: Arc<Held>,
    /// The order to end it.
    force: CancellationToken,
    /// Whoever wants its end once more does not wait for the next try.
    again: Notify,
    /// Output that nobody takes is thrown away from here on.
    discard: CancellationToken,
}

impl LivePod {
    pub(crate) fn known(&self) -> channel::Receiver<Known> {
        self.known.subscribe()
    }

    /// Orders the end and returns at once.
    pub(crate) fn force(&self) {
        self.discard.cancel();
        self.force.cancel();
        self.again.notify_waiters();
    }

    /// Waits until its kubelet has said anything of its server, for a few seconds after its start:
    /// until then a kubelet may forget what it is told to delete, and no end is proven. Force does
    /// not wait for one that is slow: the end is then not proven where it forgets.
    async fn told(&self) {
        let mut seen = self.entry.seen();
        let told = seen.wait_for(|seen| seen.lost.is_some() || decide::is_told(seen));
        let forced = async {
            self.force.cancelled().await;
            sleep(TOLD_BY_FORCE).await;
        };
        tokio::select! {
            _ = timeout_at(self.begun + TOLD, told) => {}
            () = forced => {}
        }
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        self.known.send_if_modified(|known| {
            let before = known.clone();
            change(known);
            *known != before
        });
    }
}
