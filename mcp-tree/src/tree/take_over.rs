//! Does the work of a guardian that was killed: ends what the host can find of its server.

use std::sync::Arc;

use mcp_lifecycle_core::launch::ExitStatus;

use super::guarded::Guarded;
use super::look;
use crate::cgroup::Leaf;
use crate::conclusion::decide::Main;
use crate::conclusion::{Emptied, Event, Holder, Inside};
use crate::sys::{self, Pid, ProcessState, Seen};

impl Guarded {
    /// Ends what can be found outside the cgroup, and empties that.
    pub(super) fn take_over(self: &Arc<Self>) {
        let inside = match &self.leaf {
            Ok(leaf) => self.kill_members(leaf),
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

    /// Kills the members of the cgroup: listed before, named after. The main process is not counted.
    pub(super) fn kill_members(&self, leaf: &Leaf) -> Inside {
        let mut members = leaf.members().unwrap_or_default();
        if let Err(error) = leaf.kill() {
            crate::logged!(warn, %error, "a cgroup cannot be killed");
        }
        members.retain(|pid| Some(*pid) != self.main_pid());
        let name = |pid: &u32| (*pid, sys::name_of(*pid).unwrap_or_default());
        Inside::these(members.iter().map(name))
    }
}
