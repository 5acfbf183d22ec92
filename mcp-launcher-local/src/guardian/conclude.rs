//! From the guardian's last word to the proof.
//!
//! On the watcher's thread, the search's, or that of a caller who tries again.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone, Remnant};

use super::decide::{self, Cgroup};
use super::process::protocol::{Listing, Stage};
use super::server::Server;
use super::strays::{self, Found};
use crate::cgroup::Leaf;
use crate::ending::Proof;
use crate::orphans::Where;
use crate::sys;

const UNSEARCHED: &str = "the guardian has reaped everybody, but those whom the server left in \
                          other PID namespaces could not be searched for";

/// Names that are kept of those that the host has swept; more are counted.
const NAMES_MAX: usize = 64;

/// What has to come together before the last word is out.
#[derive(Debug, Default)]
pub(super) struct Settling {
    guardian_reaped: bool,
    word: Option<(Option<ExitStatus>, Gone)>,
}

/// What the guardian has said last.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) exit: Option<ExitStatus>,
    gone: Gone,
    /// `true` if there was a server.
    executed: bool,
}

/// By the guardian's account: whom it reaped after it had begun to signal.
pub(super) fn account(swept: &Listing<'_>) -> Gone {
    let named = swept
        .processes()
        .map(|(pid, name)| Remnant::process(pid, String::from_utf8_lossy(name)));
    let mut gone = Gone::proven_by(Evidence::Reaped).with_swept(named);
    gone.swept_count = swept.total() as usize;
    gone
}

impl Server {
    /// The guardian has no descendants any more. The cgroup goes with them, the
    /// guardian itself is reaped, and then the word is out.
    pub(super) fn conclude(
        self: &Arc<Self>,
        exit: Option<ExitStatus>,
        gone: Gone,
        failed: Option<(Stage, i32)>,
    ) {
        // Said now: a cgroup that cannot be removed is not why the start failed.
        if let Some(failed) = failed {
            self.started.send_replace(Some(Err(failed)));
        }
        let word = Word {
            exit,
            gone,
            executed: failed.is_none(),
        };
        // Whatever cannot be looked at now, the word stands.
        let _ = self.word.set(word.clone());
        self.conclude_by(word);
    }

    /// Looks for those whom the guardian does not see.
    pub(super) fn conclude_by(self: &Arc<Self>, word: Word) {
        let server = Arc::clone(self);
        let Word {
            exit,
            gone,
            executed,
        } = word;
        // Where nothing was executed, nobody has gone anywhere.
        let publish = move |gone| match executed {
            false => server.publish(exit, gone),
            true => server.conclude_by_search(exit, gone),
        };
        let Ok(leaf) = &self.leaf else {
            return publish(gone);
        };
        if leaf.remove_empty() {
            return publish(gone.with_evidence(Evidence::CgroupEmpty));
        }
        // What entered a foreign PID namespace and was orphaned there is no
        // descendant of the guardian's, but it is inside.
        let inside = Inside::killed(leaf, self.main_pid());
        if executed {
            self.tell_exit(exit);
        }
        let server = Arc::clone(self);
        leaf.end(move |removed| {
            let cgroup = match removed {
                Ok(()) => Cgroup::Empty,
                Err(error) => Cgroup::Failed(error.to_string()),
            };
            match decide::concluded(&cgroup) {
                Ok(evidence) => {
                    let gone = inside.swept_from(gone);
                    publish(evidence.into_iter().fold(gone, Gone::with_evidence));
                }
                // It stays written down, and is tried again.
                Err(why) => {
                    sys::shielded(|| {
                        tracing::error!(guardian = server.guardian.pid(), "{why}");
                    });
                    server.ending.update(|known| {
                        known.exit = known.exit.or(exit);
                        known.proof = Some(Proof::Lost(why));
                    });
                }
            }
        });
    }

    /// The guardian has reaped everybody that it could see, and the cgroup is
    /// empty where there is one. Neither sees who was orphaned in a foreign PID
    /// namespace and has left the cgroup.
    fn conclude_by_search(self: &Arc<Self>, exit: Option<ExitStatus>, gone: Gone) {
        let Some(identity) = self.identity.clone() else {
            return self.publish(exit, gone);
        };
        let server = Arc::clone(self);
        strays::end(self, Where::Abroad, identity, move |found| match found {
            Ok(Found { ended, .. }) => {
                let gone =
                    Inside::these(ended).swept_from(gone.with_evidence(Evidence::NoneMarked));
                server.publish(exit, gone);
            }
            // It stays written down, and is tried again.
            Err(error) => {
                let why = Cow::Owned(format!("{UNSEARCHED}: {error}"));
                sys::shielded(|| tracing::error!(guardian = server.guardian.pid(), "{why}"));
                server.ending.update(|known| {
                    known.exit = known.exit.or(exit);
                    known.proof = Some(Proof::Lost(why));
                });
            }
        });
    }

    fn publish(self: &Arc<Self>, exit: Option<ExitStatus>, gone: Gone) {
        self.settle(|settling| settling.word = Some((exit, gone)));
        // Mostly it has ended meanwhile: then exit and proof are one piece of news.
        if self.is_guardian_over() {
            self.guardian_exited();
        }
        self.tell_exit(exit);
        // The proof does not depend on what can be written.
        self.strike_out();
    }

    /// Says how the server's own process has ended, while the proof takes longer: calls in flight fail now.
    pub(super) fn tell_exit(&self, exit: Option<ExitStatus>) {
        if exit.is_some() && !self.ending.has_exited() {
            self.ending.update(|known| known.exit = known.exit.or(exit));
        }
    }

    /// The guardian is no process any more. What it said last is out now: whoever
    /// is told that nothing is left finds no guardian either.
    pub(super) fn guardian_reaped(&self) {
        self.settle(|settling| settling.guardian_reaped = true);
    }

    fn settle(&self, change: impl FnOnce(&mut Settling)) {
        let word = {
            let mut settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut settling);
            match settling.guardian_reaped {
                true => settling.word.take(),
                false => None,
            }
        };
        // Wakers are others' code, which runs under no lock.
        if let Some((exit, gone)) = word {
            self.ending.update(|known| {
                known.exit = known.exit.or(exit);
                known.proof = Some(Proof::Gone(gone));
            });
        }
    }

    /// Nothing is left for whoever comes after this host.
    pub(super) fn strike_out(&self) {
        if let Some(entry) = self.lock_entry().take() {
            entry.end();
        }
    }
}

/// Those whom the host has ended: inside of a cgroup, or found by identity.
#[derive(Default)]
pub(super) struct Inside {
    named: Vec<Remnant>,
    count: usize,
}

impl Inside {
    /// Kills whoever is inside. They are numbered before and named after that,
    /// in one look: what cannot be read is nobody. The main process is not
    /// counted.
    pub(super) fn killed(leaf: &Leaf, main: Option<u32>) -> Self {
        let mut members = leaf.members().unwrap_or_default();
        if let Err(error) = leaf.kill() {
            sys::shielded(|| tracing::warn!(%error, "a cgroup cannot be killed"));
        }
        members.retain(|pid| Some(*pid) != main);
        let named = members.iter().take(NAMES_MAX);
        Self {
            named: named
                .map(|pid| Remnant::process(*pid, sys::name_of(*pid).unwrap_or_default()))
                .collect(),
            count: members.len(),
        }
    }

    pub(super) fn these(ended: strays::Ended) -> Self {
        let count = ended.len();
        let named = ended.into_iter().take(NAMES_MAX);
        Self {
            named: named
                .map(|(pid, name)| Remnant::process(pid, name))
                .collect(),
            count,
        }
    }

    pub(super) fn swept_from(self, gone: Gone) -> Gone {
        let unnamed = self.count - self.named.len();
        let mut gone = gone.with_swept(self.named);
        gone.swept_count += unnamed;
        gone
    }
}
