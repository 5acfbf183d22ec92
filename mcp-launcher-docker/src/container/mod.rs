//! One container that we launched: its state, and the tasks that own it.
//!
//! ```text
//!   start ──▶ watch ──exit──▶ Ended ──(engine removes)──┐
//!               │                └─ not removed in time ─┤ rm -f
//!               │ daemon lost                            ▼
//!               ├────────▶ Unknown ──asks again──▶   Removing ──404──▶ Gone
//!               └── force (force_end, kill_now), kill ──▲
//! ```
//!
//! All on the control thread, so that neither the caller's cancellation nor
//! the end of its runtime interrupts them.

mod drain;
mod launch;
mod remove;
mod terminator;
mod unfinished;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

pub(crate) use launch::{Job, LATE_CREATE, launch, prepare};
pub(crate) use remove::remove_until_absent;
pub(crate) use terminator::{DockerTerminator, semantics};
pub(crate) use unfinished::Unfinished;

use crate::engine::Engine;
use crate::last_will::Included;
use crate::lease::Lease;

/// The known facts about a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The exit status of its main process.
    pub(crate) exit: Option<ExitStatus>,
    /// The daemon has said that there is no such container.
    pub(crate) gone: bool,
    /// Why nothing is known at the moment: the daemon does not answer.
    pub(crate) lost: Option<String>,
}

/// A container that was created by us, shared by its tasks and its terminator.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) engine: Arc<Engine>,
    supervised: bool,
    known: channel::Sender<Known>,
    /// The order to remove it, running or not.
    force: CancellationToken,
    /// Output that nobody takes is thrown away from here on: a stream that is
    /// not read blocks the daemon's stop, kill, inspect and rm of this
    /// container (moby issue 41827).
    discard: CancellationToken,
    /// The attachment is closed, whoever still reads.
    detach: CancellationToken,
    /// Cancelled once the container is gone, which the connection to a remote engine
    /// may not tell.
    over: CancellationToken,
    /// It is removed when this host dies, while this is there.
    included: Mutex<Option<Arc<Included>>>,
    /// Kept until the container is gone.
    _lease: Arc<Lease>,
}

impl Container {
    pub(crate) fn known(&self) -> channel::Receiver<Known> {
        self.known.subscribe()
    }

    pub(crate) fn discard_output(&self) {
        self.discard.cancel();
    }

    /// Orders the removal and returns at once.
    pub(crate) fn force(&self) {
        self.discard.cancel();
        self.force.cancel();
    }

    /// Returns whether it would be removed if this host died at this moment.
    fn is_willed(&self) -> bool {
        let included = self.included.lock();
        let included = included.unwrap_or_else(PoisonError::into_inner);
        included.as_deref().is_some_and(Included::is_certain)
    }

    /// The engine has said that there is no such container.
    fn is_gone(&self, exit: ExitStatus) {
        let included = self.included.lock();
        drop(included.unwrap_or_else(PoisonError::into_inner).take());
        self.learn(|known| {
            known.exit.get_or_insert(exit);
            known.lost = None;
            known.gone = true;
        });
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        self.known.send_if_modified(|known| {
            let before = known.clone();
            change(known);
            *known != before
        });
    }
}
