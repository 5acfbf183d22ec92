//! Faults of a host from outside.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::case::Case;
use crate::plan::{What, When};
use crate::process::{Process, guardians_of, is_guardian};

impl Case<'_> {
    /// Does what the plan has for this time.
    pub(crate) fn inject(&mut self, when: When, begun: Instant, host: &Process) {
        self.guardians.extend(guardians_of(host.pid()));
        let Some(fault) = self.plan.fault.filter(|fault| fault.when == when) else {
            return;
        };
        // The random instant is the experiment.
        let due = begun + Duration::from_micros(fault.micros);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let to_guardians = |signal| {
            let guardians = guardians_of(host.pid());
            for guardian in &guardians {
                let _ = kill(*guardian, signal);
            }
            guardians
        };
        match fault.what {
            What::KillHost => host.signal(Signal::SIGKILL),
            What::StopHostForAWhile => {
                host.signal(Signal::SIGSTOP);
                thread::sleep(Duration::from_millis(150));
                host.signal(Signal::SIGCONT);
            }
            What::KillGuardians => {
                to_guardians(Signal::SIGKILL);
                self.facts.guardian_killed = true;
            }
            What::StopGuardians => {
                self.guardians.extend(to_guardians(Signal::SIGSTOP));
                self.facts.guardian_stopped = true;
            }
            What::StopGuardiansForAWhile => {
                let stopped = to_guardians(Signal::SIGSTOP);
                thread::sleep(Duration::from_millis(300));
                for guardian in stopped {
                    let _ = kill(guardian, Signal::SIGCONT);
                }
            }
            What::KillHostAndGuardians => {
                host.signal(Signal::SIGSTOP);
                to_guardians(Signal::SIGKILL);
                host.signal(Signal::SIGKILL);
                self.facts.guardian_killed = true;
            }
            What::StopGuardiansKillHost => {
                host.signal(Signal::SIGSTOP);
                self.guardians.extend(to_guardians(Signal::SIGSTOP));
                host.signal(Signal::SIGKILL);
                self.facts.guardian_stopped = true;
            }
            What::KillCgroup => {
                self.stage.kill_cgroup("host");
                self.facts.cgroup_killed = true;
                self.facts.guardian_killed = true;
            }
        }
    }

    /// Lets all that were stopped go on, also those that are stopped a little later.
    pub(crate) fn proceed(&mut self) {
        self.continuing = true;
        self.facts.guardian_stopped = false;
        self.continue_guardians();
    }

    pub(crate) fn continue_guardians(&self) {
        for guardian in &self.guardians {
            if is_guardian(*guardian) {
                let _ = kill(*guardian, Signal::SIGCONT);
            }
        }
    }
}
