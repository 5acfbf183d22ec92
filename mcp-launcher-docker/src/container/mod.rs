//! One container that we launched, and the tasks that own it.
//!
//! ```text
//!   start ──▶ watch ──exit──▶ Ended ──(engine removes)──┐
//!               │                └─ not removed in time ─┤ rm -f
//!               │ daemon lost                            ▼
//!               ├────────▶ Unknown ──asks again──▶   Removing ──404──▶ Gone
//!               └── force (force_end, kill_now), kill ──▲
//! ```
//!
//! Everything runs on the control thread, so that neither a cancelled caller nor the end of its
//! runtime interrupts it.

mod drain;
mod launch;
mod remove;
mod terminator;
mod watch;

use std::sync::Arc;

use mcp_lifecycle_core::backend::known::learn;
use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use drain::Signals;
pub(crate) use launch::{Job, LATE_CREATE, launch, prepare};
pub(crate) use remove::{Unfinished, remove_until_absent};
pub(crate) use terminator::semantics;

use crate::engine::Engine;
use crate::host::Host;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) gone: bool,
    /// Set while the daemon does not respond.
    pub(crate) lost: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) engine: Arc<Engine>,
    supervised: bool,
    known: channel::Sender<Known>,
    /// Cancelled to remove the container, even if it runs.
    force: CancellationToken,
    signals: Signals,
    /// Held until the container is gone.
    host: Host,
}

impl Container {
    pub(crate) fn force(&self) {
        self.signals.discard.cancel();
        self.force.cancel();
    }

    fn is_willed(&self) -> bool {
        // A supervised container has its own graces.
        !self.supervised && self.host.is_willed(&self.engine.endpoint)
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        learn(&self.known, change);
    }
}
