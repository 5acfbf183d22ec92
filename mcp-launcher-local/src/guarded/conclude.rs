//! From the guardian's last word, or its death, to the proof.
//!
//! All of it on the watcher's thread.

use std::io;
use std::sync::{Arc, PoisonError};

use mcp_lifecycle_core::{Evidence, ExitStatus, Gone, Remnant};

use super::server::Server;
use crate::cgroup::Leaf;
use crate::ending::Proof;
use crate::guard::protocol::Stage;
use crate::sys;

/// Why there is no proof.
const LOST: &str = "the guardian was killed; the server ended with it, but what had left its \
                    process group may live";

/// Why there is no proof although there was a cgroup.
const LOST_BOTH: &str = "the guardian was killed, and its server's cgroup could not be emptied";

/// What has to come together before the last word is out.
#[derive(Debug, Default)]
pub(super) struct Settling {
    guardian_reaped: bool,
    word: Option<(Option<ExitStatus>, Gone)>,
}

impl Server {
    /// Who was swept: of those that were alive when the tree was signalled, all
    /// but the server's own process.
    pub(super) fn account(&self, count: usize) -> Gone {
        let main = self.main_pid();
        let mut signalled = std::mem::take(&mut *self.lock_signalled());
        signalled.retain(|pid, _| Some(*pid) != main);
        let mut gone = Gone::proven_by(Evidence::Reaped).with_swept(
            signalled
                .into_iter()
                .take(count)
                .map(|(pid, name)| Remnant::process(pid, name)),
        );
        gone.swept_count = count;
        gone
    }

    /// The guardian has no descendants any more. The cgroup goes with them, the
    /// guardian itself is reaped, and then the word is out.
    pub(super) fn conclude(
        self: &Arc<Self>,
        exit: Option<ExitStatus>,
        gone: Gone,
        failed: Option<(Stage, i32)>,
    ) {
        let server = Arc::clone(self);
        let publish = move |removed: io::Result<()>| {
            match removed {
                Ok(()) => server.strike_out(),
                // Empty by the guardian's word; only the directory is left, and
                // stays written down.
                Err(error) => {
                    tracing::warn!(%error, "the cgroup of a server could not be removed");
                }
            }
            if let Some(failed) = failed {
                server.started.send_replace(Some(Err(failed)));
            }
            server.settle(|settling| settling.word = Some((exit, gone)));
        };
        match self.take_leaf() {
            Some(leaf) => leaf.end(publish),
            None => publish(Ok(())),
        }
    }

    /// The guardian is no process any more. What it said last is out now: whoever
    /// is told that nothing is left finds no guardian either.
    pub(super) fn guardian_reaped(&self) {
        self.settle(|settling| settling.guardian_reaped = true);
    }

    fn settle(&self, change: impl FnOnce(&mut Settling)) {
        let mut settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut settling);
        if settling.guardian_reaped
            && let Some((exit, gone)) = settling.word.take()
        {
            self.ending.update(|known| {
                known.exit = known.exit.or(exit);
                known.proof = Some(Proof::Gone(gone));
            });
        }
    }

    /// The guardian was killed. With a cgroup the host can do its work.
    pub(super) fn take_over(self: &Arc<Self>) {
        tracing::error!(guardian = self.guardian.pid(), "a guardian was killed");
        let server = Arc::clone(self);
        let publish = move |proof| {
            server.ending.update(|known| {
                known.exit = known.exit.or(Some(ExitStatus::Unknown));
                known.proof = Some(proof);
            });
        };
        let Some(leaf) = self.take_leaf() else {
            return publish(Proof::Lost(LOST));
        };
        let members = leaf.members().unwrap_or_default();
        let main = self.main_pid();
        let swept = members
            .into_iter()
            .filter(|pid| Some(*pid) != main)
            .map(|pid| Remnant::process(pid, sys::name_of(pid).unwrap_or_default()))
            .collect::<Vec<_>>();
        let server = Arc::clone(self);
        leaf.end(move |result| match result {
            Ok(()) => {
                server.strike_out();
                publish(Proof::Gone(
                    Gone::proven_by(Evidence::CgroupEmpty).with_swept(swept),
                ));
            }
            Err(error) => {
                tracing::error!(%error, "the cgroup of a server could not be emptied");
                publish(Proof::Lost(LOST_BOTH));
            }
        });
    }

    /// Nothing is left for whoever comes after this host.
    fn strike_out(&self) {
        if let Some(entry) = self.lock_entry().take() {
            entry.end();
        }
    }

    fn take_leaf(&self) -> Option<Leaf> {
        let leaf = self.leaf.as_ref().ok()?;
        leaf.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
