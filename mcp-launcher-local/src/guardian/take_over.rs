//! The host's own proof, where the guardian was killed or is of no use.
//!
//! On the watcher's thread, the search's, or that of a caller who tries again.

use std::sync::Arc;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone};

use super::conclude::Inside;
use super::decide::{Adopted, Cgroup, Findings, Main, Marked};
use super::look;
use super::server::Server;
use super::strays::{self, Found};
use crate::ending::Proof;
use crate::orphans::Where;
use crate::sys::{self, Pid, ProcessState, Seen};

impl Server {
    /// The guardian was killed, or the last look brought no proof. The host does
    /// its work: ends what it can find, and looks whether that was all.
    pub(super) fn take_over(self: &Arc<Self>) {
        if let Some(word) = self.word.get().cloned() {
            return self.conclude_by(word);
        }
        let inside = match &self.leaf {
            Ok(leaf) => Inside::killed(leaf, self.main_pid()),
            Err(_) => Inside::default(),
        };
        if self.pid_namespace {
            return self.end_namespace(inside);
        }
        let main = self.look_at_main();
        if main == Main::Outside {
            self.kill_main();
        }
        self.empty_cgroup(main, inside);
    }

    /// Ends the init of the server's PID namespace and waits for its end, before
    /// which the kernel ends everybody inside.
    fn end_namespace(self: &Arc<Self>, inside: Inside) {
        let init = self.main_pid().and_then(|pid| Pid::new(pid.into()));
        let Some(init) = init else {
            return self.empty_cgroup(Main::InitNotSeen, inside);
        };
        let is_init = |seen: &Seen| self.is_main(seen) && seen.state != ProcessState::Dead;
        // Where it cannot be told, the end of whoever has the number is waited for.
        let still = || match sys::look_at(init.as_u32()) {
            Ok(None) => Ok(false),
            Ok(Some(seen)) => Ok(is_init(&seen) || self.start_time().is_none()),
            Err(_) => Ok(true),
        };
        // It ends with its guardian by itself, unless somebody holds it or it has seen to
        // that: then its end would be waited for in vain.
        let ends = look::kill(init.as_u32(), is_init).and_then(|()| {
            let server = Arc::clone(self);
            let ended = move || server.empty_cgroup(Main::InitEnded, inside);
            sys::watch_process(init, still, ended)
        });
        if let Err(error) = ends {
            let why = format!("the init of its PID namespace cannot be ended: {error}");
            let findings = Findings {
                main: Main::Unknown,
                cgroup: Cgroup::Failed(why),
                marked: Marked::Nobody,
                adopted: unlooked(),
            };
            self.judge(findings, Inside::default());
        }
    }

    fn empty_cgroup(self: &Arc<Self>, main: Main, inside: Inside) {
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

    /// Searches for whoever carries the server's identity, looks for whoever may be
    /// its and was given to another parent, and judges.
    fn search(self: &Arc<Self>, main: Main, cgroup: Cgroup, inside: Inside) {
        let identity = self.identity.clone();
        let Some(identity) = identity.filter(|_| main != Main::InitEnded) else {
            let findings = Findings {
                main,
                cgroup,
                marked: Marked::Nobody,
                adopted: unlooked(),
            };
            return self.judge(findings, inside);
        };
        // Its exit is told now: the search takes as long as the kernel likes.
        let is_empty = cgroup == Cgroup::Empty;
        if main == Main::Ended || main == Main::Inside && is_empty {
            self.tell_exit(Some(ExitStatus::Unknown));
        }
        let server = Arc::clone(self);
        strays::end(self, Where::Everywhere, identity, move |found| {
            let (marked, adopted) = match found {
                Ok(Found { ended, adopted }) => (
                    match ended.len() {
                        0 => Marked::Nobody,
                        some => Marked::Somebody(some),
                    },
                    adopted,
                ),
                Err(error) => (Marked::Unknown(error.to_string()), unlooked()),
            };
            server.judge(
                Findings {
                    main,
                    cgroup,
                    marked,
                    adopted,
                },
                inside,
            );
        });
    }

    fn judge(&self, findings: Findings, inside: Inside) {
        let proof = match findings.verdict() {
            Ok(evidence) => {
                let mut evidence = evidence.into_iter();
                let first = evidence.next().unwrap_or(Evidence::CgroupEmpty);
                let gone = evidence.fold(Gone::proven_by(first), Gone::with_evidence);
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
        if self.ending.is_proven() {
            self.strike_out();
        }
    }

    /// It lives where no cgroup and no guardian reaches it, or did a moment ago: its
    /// end is told whoever was the faster.
    fn kill_main(self: &Arc<Self>) {
        let Some(pid) = self.main_pid().and_then(|pid| Pid::new(pid.into())) else {
            return;
        };
        // Who lives is found by the search, or keeps the proof back.
        if let Err(error) = look::kill(pid.as_u32(), |seen| self.is_main(seen)) {
            sys::shielded(|| tracing::warn!(%error, "a server cannot be killed"));
        }
        let still = || match sys::look_at(pid.as_u32()) {
            Ok(seen) => Ok(seen.is_some_and(|seen| self.is_main(&seen))),
            Err(_) => Ok(true),
        };
        let server = Arc::clone(self);
        if let Err(error) = sys::watch_process(pid, still, move || {
            server.tell_exit(Some(ExitStatus::Unknown))
        }) {
            sys::shielded(|| {
                tracing::warn!(pid = pid.as_u32(), %error, "a server cannot be watched");
            });
        }
    }
}

fn unlooked() -> Adopted {
    Adopted::Unknown("nobody was looked at".to_owned())
}
