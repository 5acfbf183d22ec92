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

mod attach;
mod decide;
mod facts;
mod keep;
mod launch;
mod terminator;

use std::sync::Arc;

use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
pub(crate) use decide::end;
pub(crate) use decide::{End, Failure, Lost, Object, Seen};
pub(crate) use facts::{Facts, SERVER};
pub(crate) use keep::{remove_secret, undo};
pub(crate) use launch::{Job, launch};
pub(crate) use terminator::semantics;

use crate::cluster::{Cluster, Entry};
use crate::lease::Held;

/// What is known of a pod.
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
    /// Kept until the pod is gone.
    lease: Arc<Held>,
    /// The order to end it.
    force: CancellationToken,
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
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        self.known.send_if_modified(|known| {
            let before = known.clone();
            change(known);
            *known != before
        });
    }
}
