//! The turn of a guardian, as `guardian-bin/supervise.rs` does it.

use super::world::{Hindered, Owner, World};

impl World {
    /// Runs the guardian's loop once, unless it is hindered.
    pub(super) fn guardian_turn(&mut self, index: usize) -> Result<(), String> {
        let server = &mut self.servers[index];
        let Some(guardian) = server.guardian.filter(|_| server.hindered == Hindered::No) else {
            return Ok(());
        };
        if server.ordered {
            server.course.kill();
        }
        if !self.hosts[server.host].alive {
            // Without a grace no process is asked.
            let _ = server.course.host_gone(self.now, 0);
        }
        server.course.pass(self.now);
        let children: Vec<u32> = self.children_of(guardian).collect();
        let dead = children.iter().filter(|pid| self.processes[pid].zombie);
        for pid in dead.copied().collect::<Vec<_>>() {
            self.processes.remove(&pid);
            self.servers[index].course.reaped();
            if self.servers[index].main.0 == pid {
                self.servers[index].course.main_exited(0);
            }
        }
        let left = self.children_of(guardian).count();
        if (self.decisions.nobody_is_left)(left) {
            self.note(|| format!("the guardian of {index} has nobody left"));
            if self.servers[index].course.none_is_left() {
                self.servers[index].gone = true;
            }
            // It has sent its final report, and exits.
            self.die(guardian);
            return Ok(());
        }
        if self.servers[index].course.is_round_due(self.now) {
            self.note(|| format!("the guardian of {index} kills"));
            if self.servers[index].cgroup {
                self.kill_cgroup(index);
            }
            let reached: Vec<u32> = self.children_of(guardian).collect();
            let alive = reached.iter().filter(|pid| !self.processes[pid].zombie);
            for pid in alive.copied().collect::<Vec<_>>() {
                if self.processes[&pid].owner != Owner::Server(index) {
                    return Err(format!("the guardian of {index} kills {pid}, a stranger"));
                }
                self.die(pid);
            }
            let now = self.now;
            self.servers[index].course.round_reached(reached.len(), now);
        }
        Ok(())
    }

    /// Lets the kernel kill all members.
    pub(super) fn kill_cgroup(&mut self, index: usize) {
        let inside = self.processes.iter();
        let inside = inside.filter(|(_, process)| process.inside == Some(index));
        for pid in inside.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.die(pid);
        }
    }
}
