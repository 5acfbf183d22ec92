//! The faults of guardians, hosts and cgroups from outside.

use super::random::Random;
use super::world::{Hindered, Owner, Said, World};

impl World {
    /// A stranger is moved into the cgroup of a server.
    pub(super) fn move_in(&mut self, random: &mut Random) {
        let server = random.below(self.servers.len() as u64) as usize;
        if !self.servers[server].cgroup {
            return;
        }
        let host = self.servers[server].host;
        let others = self.processes.iter().filter(|(_, process)| {
            let of = match process.owner {
                Owner::Server(of) => self.servers[of].host,
                _ => host,
            };
            of != host && process.said == Said::Truth && !process.zombie
        });
        let others: Vec<u32> = others.map(|(pid, _)| *pid).collect();
        if !others.is_empty() {
            let pid = *random.pick(&others);
            self.note(|| format!("{pid} is moved into the cgroup of {server}"));
            if let Some(process) = self.processes.get_mut(&pid) {
                process.inside = Some(server);
            }
        }
    }

    pub(super) fn kill_guardian(&mut self, server: usize) {
        if let Some(guardian) = self.servers[server].guardian {
            self.note(|| format!("the guardian of {server} is killed"));
            self.servers[server].guarded = false;
            self.die(guardian);
        }
    }

    pub(super) fn hinder(&mut self, server: usize, how: Hindered) {
        self.note(|| format!("the guardian of {server}: {how:?}"));
        self.servers[server].hindered = how;
    }

    pub(super) fn kill_host(&mut self, host: usize) {
        if self.hosts[host].alive {
            self.note(|| format!("host {host} is killed"));
            self.die(self.hosts[host].pid);
        }
    }
}
