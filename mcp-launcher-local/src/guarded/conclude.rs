//! From the guardian's last word, or its death, to the proof.
//!
//! On the watcher's thread, or on that of a caller who tries again.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mcp_lifecycle_core::{Evidence, ExitStatus, Gone, Remnant};

use super::decide::{self, Cgroup, Findings, Main, Marked};
use super::server::Server;
use super::strays;
use crate::cgroup::Leaf;
use crate::ending::Proof;
use crate::guard::protocol::{Listing, Stage};
use crate::sys::{self, Pid};

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
        let server = Arc::clone(self);
        let publish = move |gone| {
            server.settle(|settling| settling.word = Some((exit, gone)));
        };
        let Ok(leaf) = &self.leaf else {
            return self.conclude_without_cgroup(exit, gone);
        };
        if leaf.remove_empty() {
            self.strike_out();
            return publish(gone.and_by(Evidence::CgroupEmpty));
        }
        // What entered a foreign PID namespace and was orphaned there is no
        // descendant of the guardian's, but it is inside.
        let inside = Inside::killed(leaf, self.main_pid());
        let server = Arc::clone(self);
        leaf.end(move |removed| {
            let cgroup = match removed {
                Ok(()) => Cgroup::Empty,
                Err(error) => Cgroup::Failed(error.to_string()),
            };
            match decide::concluded(&cgroup) {
                Ok(evidence) => {
                    server.strike_out();
                    let gone = inside.swept_from(gone);
                    publish(evidence.into_iter().fold(gone, Gone::and_by));
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

    /// The guardian has reaped everybody that it could see, which is not who was
    /// orphaned in a foreign PID namespace.
    fn conclude_without_cgroup(self: &Arc<Self>, exit: Option<ExitStatus>, gone: Gone) {
        let publish = move |server: &Self, gone| {
            server.strike_out();
            server.settle(|settling| settling.word = Some((exit, gone)));
        };
        let Some(identity) = self.identity.clone() else {
            return publish(self, gone);
        };
        let server = Arc::clone(self);
        strays::end(
            identity,
            self.start_time().unwrap_or(0),
            move |ended| match ended {
                Ok(ended) => {
                    let inside = Inside::these(ended);
                    publish(
                        &server,
                        inside.swept_from(gone.and_by(Evidence::NoneMarked)),
                    );
                }
                // It stays written down, and is tried again.
                Err(error) => {
                    let why = Cow::Owned(format!("{UNSEARCHED}: {error}"));
                    sys::shielded(|| tracing::error!(guardian = server.guardian.pid(), "{why}"));
                    let _ = server.reaped.set((exit, gone));
                    server.ending.update(|known| {
                        known.exit = known.exit.or(exit);
                        known.proof = Some(Proof::Lost(why));
                    });
                }
            },
        );
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

    /// The guardian was killed, or the last look brought no proof. The host does
    /// its work: ends what it can find, and looks whether that was all.
    pub(super) fn take_over(self: &Arc<Self>) {
        if let Some((exit, gone)) = self.reaped.get().cloned() {
            return self.conclude_without_cgroup(exit, gone);
        }
        let inside = match &self.leaf {
            Ok(leaf) => Inside::killed(leaf, self.main_pid()),
            Err(_) => Inside::default(),
        };
        let main = self.look_at_main();
        if main == Main::Outside {
            self.kill_main();
        }
        let Ok(leaf) = &self.leaf else {
            return self.search(main, Cgroup::None, inside);
        };
        let server = Arc::clone(self);
        leaf.end(move |result| {
            let cgroup = match result {
                Ok(()) => Cgroup::Empty,
                Err(error) => Cgroup::Failed(error.to_string()),
            };
            server.search(main, cgroup, inside);
        });
    }

    /// Searches for whoever carries the server's identity, and judges.
    ///
    /// On a thread of its own: a process whose memory the kernel has locked
    /// keeps waiting whoever reads its environment, and the watcher's thread
    /// waits for all servers. Without a thread nobody has searched, and there is
    /// no proof before the next attempt.
    fn search(self: &Arc<Self>, main: Main, cgroup: Cgroup, inside: Inside) {
        let findings = Arc::new(Mutex::new(Some((main, cgroup, inside))));
        let take = {
            let findings = Arc::clone(&findings);
            move || {
                findings
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take()
            }
        };
        let server = Arc::clone(self);
        let searched = move || {
            if let Some((main, cgroup, inside)) = take() {
                let marked = server.search_and_kill();
                server.judge(main, cgroup, inside, marked);
            }
        };
        let thread = thread::Builder::new().name("mcp-search".to_owned());
        let Err(error) = thread.spawn(searched) else {
            return;
        };
        let findings = findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((main, cgroup, inside)) = findings {
            let why = format!("no thread can be started: {error}");
            self.judge(main, cgroup, inside, Marked::Unknown(why));
        }
    }

    fn search_and_kill(&self) -> Marked {
        let (marked, missed) = self.marked();
        marked.iter().for_each(|seen| self.kill_marked(seen));
        match (marked.len(), missed) {
            (0, None) => Marked::Nobody,
            (0, Some(error)) => Marked::Unknown(error.to_string()),
            (count, _) => Marked::Somebody(count),
        }
    }

    fn judge(&self, main: Main, cgroup: Cgroup, inside: Inside, marked: Marked) {
        let findings = Findings {
            main,
            cgroup,
            marked,
            somebody_left: self.somebody_left.load(Ordering::Relaxed),
        };
        let left = findings.show_a_leaver() && self.leaf.is_ok();
        self.somebody_left.fetch_or(left, Ordering::Relaxed);
        let proof = match findings.verdict() {
            Ok(evidence) => {
                self.strike_out();
                let mut evidence = evidence.into_iter();
                let first = evidence.next().unwrap_or(Evidence::CgroupEmpty);
                let gone = evidence.fold(Gone::proven_by(first), Gone::and_by);
                Proof::Gone(inside.swept_from(gone))
            }
            Err(why) => {
                let guardian = self.guardian.pid();
                sys::shielded(|| tracing::error!(guardian, ?findings, "{why}"));
                Proof::Lost(why)
            }
        };
        self.ending.update(|known| {
            if findings.main_has_ended() {
                known.exit = known.exit.or(Some(ExitStatus::Unknown));
            }
            known.proof = Some(proof);
        });
    }

    /// It lives where no cgroup and no guardian reaches it.
    fn kill_main(self: &Arc<Self>) {
        let Some(pid) = self.main_pid().and_then(|pid| Pid::new(pid.into())) else {
            return;
        };
        let still = || self.look_at_main() == Main::Outside;
        let Ok(held) = sys::hold(pid) else { return };
        if still() && sys::kill_held(&held).is_ok() {
            let server = Arc::clone(self);
            let ended = move || {
                server
                    .ending
                    .update(|known| known.exit = known.exit.or(Some(ExitStatus::Unknown)));
            };
            if let Err(error) = sys::watch_process(pid, || true, ended) {
                sys::shielded(|| {
                    tracing::warn!(pid = pid.as_u32(), %error, "a server cannot be watched");
                });
            }
        }
    }

    /// Nothing is left for whoever comes after this host.
    fn strike_out(&self) {
        if let Some(entry) = self.lock_entry().take() {
            entry.end();
        }
    }
}

/// Those whom the host has ended: inside of a cgroup, or found by identity.
#[derive(Default)]
struct Inside {
    named: Vec<Remnant>,
    count: usize,
}

impl Inside {
    /// Kills whoever is inside. They are numbered before and named after that,
    /// in one look: what cannot be read is nobody. The main process is not
    /// counted.
    fn killed(leaf: &Leaf, main: Option<u32>) -> Self {
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

    fn these(ended: strays::Ended) -> Self {
        let count = ended.len();
        let named = ended.into_iter().take(NAMES_MAX);
        Self {
            named: named
                .map(|(pid, name)| Remnant::process(pid, name))
                .collect(),
            count,
        }
    }

    fn swept_from(self, gone: Gone) -> Gone {
        let unnamed = self.count - self.named.len();
        let mut gone = gone.with_swept(self.named);
        gone.swept_count += unnamed;
        gone
    }
}
