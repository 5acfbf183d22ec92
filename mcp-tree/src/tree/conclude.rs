//! Does what the [conclusion](crate::conclusion) asks for, on the watcher's thread, the search's,
//! or a retrying caller's.

use std::sync::Arc;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus};

use super::guarded::Guarded;
use super::{look, strays};
use crate::cgroup::Leaf;
use crate::conclusion::decide::Main;
use crate::conclusion::{Acts, Emptied, Event, Holder, Inside, Next, Proof};
use crate::sys::{self, Pid, ProcessState, Seen};

const NOT_EMPTIED: &str = "the server's cgroup could not be emptied";

impl Guarded {
    pub(super) fn advance(self: &Arc<Self>, event: Event) {
        // No lock is held while wakers, foreign code, run.
        let Acts { exit, proof, next } = self.conclusion.lock().on(event);
        let is_proven = matches!(proof, Some(Proof::Gone(_)));
        if let (Some(program), Some(Proof::Gone(gone))) = (self.program.get(), &proof) {
            let (pid, swept, proof) = (self.main_pid(), gone.swept_count, &gone.evidence);
            crate::logged!(info, program, pid, ?exit, swept, ?proof, "tree ended");
        }
        if let Some(Proof::Lost(why)) = &proof {
            crate::logged!(error, guardian = self.guardian.pid(), "{why}");
        }
        self.ending.publish(exit, proof);
        if is_proven {
            self.strike_out();
        }
        match next {
            Some(Next::Empty { exit, emptied }) => self.empty(exit, emptied),
            Some(Next::TakeOver) => self.take_over(),
            Some(Next::Search { everywhere }) => strays::end(self, everywhere),
            Some(Next::AwaitGuardian(exit)) => self.await_guardian(exit),
            None => {}
        }
    }

    /// Reaps a guardian that has ended, as it mostly has: exit and proof are then published at
    /// once.
    fn await_guardian(self: &Arc<Self>, exit: Option<ExitStatus>) {
        if self.is_guardian_over() {
            self.guardian_exited();
        }
        self.ending.publish(exit, None);
        self.strike_out();
    }

    /// Empties the cgroup of a guardian that has reaped all descendants.
    fn empty(self: &Arc<Self>, exit: Option<ExitStatus>, emptied: bool) {
        let Ok(leaf) = &self.leaf else {
            return self.empty_cgroup(Main::Ended, Inside::default());
        };
        // The guardian may have rights that the host has given up since.
        if emptied {
            leaf.abandon();
        }
        if emptied || leaf.remove_empty() {
            return self.advance(Event::Emptied(Emptied {
                main: Main::Ended,
                holder: Holder::Empty(Evidence::CgroupEmpty),
                inside: Inside::default(),
            }));
        }
        // An orphan in a foreign PID namespace is no descendant of the guardian's, but it is
        // inside.
        let inside = killed(leaf, self.main_pid());
        self.ending.publish(exit, None);
        self.empty_cgroup(Main::Ended, inside);
    }

    /// Does the work of a guardian that was killed: ends what the host can find.
    fn take_over(self: &Arc<Self>) {
        let inside = match &self.leaf {
            Ok(leaf) => killed(leaf, self.main_pid()),
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

    /// Kills the init of the server's PID namespace, and with it all others inside.
    fn end_namespace(self: &Arc<Self>, inside: Inside) {
        let init = self.main_pid().and_then(|pid| Pid::new(pid.into()));
        let Some(init) = init else {
            return self.empty_cgroup(Main::InitNotSeen, inside);
        };
        let is_init = |seen: &Seen| self.is_main(seen) && seen.state != ProcessState::Dead;
        // Without a known start time, the end of the process that has this pid is waited for.
        let still = || match sys::look_at(init.as_u32()) {
            Ok(None) => Ok(false),
            Ok(Some(seen)) => Ok(is_init(&seen) || self.start_time().is_none()),
            Err(_) => Ok(true),
        };
        // It ends with its guardian by itself, unless it is held or has cleared its death signal.
        let killed = match self.start_time() {
            Some(_) => look::kill(init.as_u32(), is_init),
            None => Ok(()),
        };
        let ends = killed.and_then(|()| {
            let server = Arc::clone(self);
            let ended = move || server.empty_cgroup(Main::InitEnded, inside);
            sys::watch_process(init, still, ended)
        });
        if let Err(error) = ends {
            let why = format!("the init of its PID namespace cannot be ended: {error}");
            self.advance(Event::Emptied(Emptied {
                main: Main::Unknown,
                holder: Holder::Failed(why),
                inside: Inside::default(),
            }));
        }
    }

    fn empty_cgroup(self: &Arc<Self>, main: Main, inside: Inside) {
        let server = Arc::clone(self);
        let done = move |holder| {
            server.advance(Event::Emptied(Emptied {
                main,
                holder,
                inside,
            }));
        };
        match &self.leaf {
            Err(_) => done(Holder::None),
            Ok(leaf) => leaf.end(move |removed| {
                done(match removed {
                    Ok(()) => Holder::Empty(Evidence::CgroupEmpty),
                    Err(error) => Holder::Failed(format!("{NOT_EMPTIED}: {error}")),
                });
            }),
        }
    }

    /// Kills a main process that has left its cgroup or had none, and publishes its exit.
    fn kill_main(self: &Arc<Self>) {
        let Some(pid) = self.main_pid().and_then(|pid| Pid::new(pid.into())) else {
            return;
        };
        if let Err(error) = look::kill(pid.as_u32(), |seen| self.is_main(seen)) {
            crate::logged!(warn, %error, "a server cannot be killed");
        }
        let still = || match sys::look_at(pid.as_u32()) {
            Ok(seen) => Ok(seen.is_some_and(|seen| self.is_main(&seen))),
            Err(_) => Ok(true),
        };
        let server = Arc::clone(self);
        if let Err(error) = sys::watch_process(pid, still, move || {
            server.ending.publish(Some(ExitStatus::Unknown), None);
        }) {
            crate::logged!(warn, pid = pid.as_u32(), %error, "a server cannot be watched");
        }
    }

    fn strike_out(&self) {
        if let Some(entry) = self.entry.lock().take() {
            entry.end();
        }
    }
}

/// Kills the members of the cgroup: listed before, named after. The main process is not counted.
fn killed(leaf: &Leaf, main: Option<u32>) -> Inside {
    let mut members = leaf.members().unwrap_or_default();
    if let Err(error) = leaf.kill() {
        crate::logged!(warn, %error, "a cgroup cannot be killed");
    }
    members.retain(|pid| Some(*pid) != main);
    let name = |pid: &u32| (*pid, sys::name_of(*pid).unwrap_or_default());
    Inside::these(members.iter().map(name))
}
