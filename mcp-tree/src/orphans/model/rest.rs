//! The end of a schedule: everything comes to rest, and what is left is judged.

use super::random::Random;
use super::world::{Blind, Hindered, Owner, Said, World};

impl World {
    /// Lets all guardians, hosts and reapers finish without further faults.
    pub(super) fn come_to_rest(&mut self, random: &mut Random) -> Result<(), String> {
        self.note(|| "everything comes to rest".to_owned());
        for host in &mut self.hosts {
            host.blind = Blind::default();
        }
        for round in 0..12 {
            let guarded = self.servers.iter().any(|server| server.guardian.is_some());
            if round > 2 && !guarded {
                break;
            }
            for server in 0..self.servers.len() {
                self.servers[server].hindered = Hindered::No;
                if self.hosts[self.servers[server].host].alive {
                    self.force(server)?;
                }
                self.guardian_turn(server)?;
                self.host_turn(server)?;
                self.now += 1 << 28;
            }
        }
        for _ in 0..3 {
            self.reap(random, true, 0)?;
        }
        self.judge_the_end()
    }

    fn judge_the_end(&self) -> Result<(), String> {
        for (index, server) in self.servers.iter().enumerate() {
            let host = &self.hosts[server.host];
            if host.alive && server.guarded && server.proven != Some(true) {
                return Err(format!(
                    "server {index} has ended undisturbed, and there is no proof"
                ));
            }
            // A process that the prover cannot see remains invisible.
            let is_over = server.proven == Some(true);
            for (pid, process) in self.alive_of(index).filter(|_| !is_over) {
                // A search that sees no processes relies on the cgroups, and this one has left its own.
                let has_left = server.has_cgroup && process.inside.is_none();
                let findable = match process.inside {
                    None => process.said == Said::Truth && !has_left,
                    Some(inside) => inside == index,
                };
                if !host.alive && findable && !self.has_company(index) {
                    return Err(format!("{pid} of server {index} lives, and could be found"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a process of another host is in the cgroup.
    pub(super) fn has_company(&self, server: usize) -> bool {
        let is_theirs = |owner: Owner| match owner {
            Owner::Server(of) => self.servers[of].host == self.servers[server].host,
            _ => false,
        };
        let mut inside = self.processes.values();
        inside.any(|process| process.inside == Some(server) && !is_theirs(process.owner))
    }
}
