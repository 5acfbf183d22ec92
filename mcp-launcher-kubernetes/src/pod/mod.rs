//! One pod that we launched, and the tasks that own it.
//!
//! ```text
//!   attach ──▶ keep ──terminated──▶ DELETE grace 0 ──DELETED──▶ Gone (proven)
//!               │  └──── deleted by force ────────────────────▶ unproven, with node and container
//!               └─ force (force_end, kill_now) ──▶ DELETE grace 1 ──▶ as above
//! ```
//!
//! Everything runs on the control thread, so that neither a cancelled caller nor the end of its
//! runtime interrupts it.

mod admitted;
mod attach;
mod come_up;
mod keep;
mod launch;
mod progress;
mod terminator;

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::backend::known::learn;
use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

pub(crate) use attach::KEEP_ALIVE;
pub(crate) use keep::{remove_secret, until_end};
pub(crate) use launch::{Job, launch, prepare};
pub(crate) use terminator::semantics;

use crate::cluster::{Cluster, Entry};
use crate::decide;
use crate::lease::Held;

/// Longest wait of a deletion for the kubelet's first report of a server, counted from its start.
const TOLD: Duration = Duration::from_secs(10);

/// The same after a forced end was requested: a kubelet reports once a second.
const TOLD_BY_FORCE: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) exit: Option<ExitStatus>,
    /// The last reason for which its deletion was refused.
    pub(crate) refused: Option<String>,
    /// Its end: the evidence, or why there can be none.
    pub(crate) end: Option<Result<&'static str, String>>,
}

#[derive(Debug)]
pub(crate) struct LivePod {
    pub(crate) name: String,
    pub(crate) uid: String,
    cluster: Arc<Cluster>,
    entry: Entry,
    supervised: bool,
    /// Seconds between SIGTERM and SIGKILL.
    grace: u32,
    known: channel::Sender<Known>,
    begun: Instant,
    /// Held until the pod is gone.
    lease: Arc<Held>,
    /// Cancelled to end the pod.
    force: CancellationToken,
    /// Triggers an immediate retry of the deletion.
    again: Notify,
    /// Cancelled when unread output may be dropped.
    discard: CancellationToken,
}

impl LivePod {
    pub(crate) fn force(&self) {
        self.discard.cancel();
        self.force.cancel();
        self.again.notify_waiters();
    }

    /// Waits, for a limited time, until the kubelet has reported the server. Before that, a kubelet
    /// may forget a deleted pod, and its end cannot be proven. A forced end waits less.
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
        learn(&self.known, change);
    }
}
