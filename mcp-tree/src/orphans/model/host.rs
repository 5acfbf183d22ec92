//! The acts of a living host for one server, as `guardian` does them.

use super::Proof;
use super::world::{FOREIGN_INIT, Hindered, INIT, Owner, Proc, Said, World};
use crate::adopted::{Scene, Whose};
use crate::cgroup::name;
use crate::conclusion::decide::Main;
use crate::conclusion::{Emptied, Found, Holder, Inside};
use crate::sys::{ProcessState, Seen};

impl World {
    /// Runs the host's watcher for the guardian of a server.
    pub(super) fn host_turn(&mut self, index: usize) -> Result<(), String> {
        let server = &self.servers[index];
        if !self.hosts[server.host].alive || server.proven.is_some() || server.guardian.is_some() {
            return Ok(());
        }
        match server.gone {
            true => self.conclude(index),
            false => self.take_over(index),
        }
    }

    /// Lets the host end a server by every means.
    pub(super) fn force(&mut self, index: usize) -> Result<(), String> {
        let server = &self.servers[index];
        if !self.hosts[server.host].alive {
            return Ok(());
        }
        self.note(|| format!("server {index} is forced to end"));
        let server = &self.servers[index];
        let host = &self.hosts[server.host];
        match server.proven {
            Some(true) => return Ok(()),
            Some(false) if server.gone => return self.conclude(index),
            Some(false) => return self.take_over(index),
            None => {}
        }
        let was_cut = server.cgroup && !host.blind.cgroup;
        let guardian = server.guardian;
        let is_held = server.hindered == Hindered::Held;
        let may_replace = (self.decisions.may_replace)(is_held, was_cut);
        self.servers[index].ordered = true;
        if was_cut {
            self.kill_cgroup(index);
        }
        if self.servers[index].hindered == Hindered::Stopped {
            self.servers[index].hindered = Hindered::No;
        }
        if let Some(guardian) = guardian.filter(|_| is_held) {
            for pid in self.below(guardian) {
                self.kill(pid, index)?;
            }
            if may_replace {
                self.servers[index].guarded = false;
                self.die(guardian);
            }
        }
        Ok(())
    }

    /// Concludes from the guardian's final report.
    fn conclude(&mut self, index: usize) -> Result<(), String> {
        let holder = self.empty_cgroup(index);
        let blind = self.hosts[self.servers[index].host].blind;
        if (self.decisions.concluded)(&holder).is_err() || blind.marks {
            self.servers[index].proven = Some(false);
            return Ok(());
        }
        let is_foreign = |pid: &u32| match self.processes.get(pid) {
            Some(process) => process.foreign,
            None => *pid == FOREIGN_INIT,
        };
        let is_out_of_reach = self.decisions.is_out_of_reach;
        let is_looked_at = |it: &Proc| it.foreign && is_out_of_reach(!is_foreign(&it.parent));
        for pid in self.marked(index, is_looked_at) {
            self.kill(pid, index)?;
        }
        self.claim(index)
    }

    /// Finds processes by the identity of a server.
    fn marked(&self, index: usize, place: impl Fn(&Proc) -> bool) -> Vec<u32> {
        let marked = self.alive_of(index);
        let marked = marked.filter(|(_, it)| it.said == Said::Truth && place(it));
        marked.map(|(pid, _)| *pid).collect()
    }

    /// Empties and removes the cgroup of a server, as far as the host can look.
    fn empty_cgroup(&mut self, index: usize) -> Holder {
        match self.servers[index].has_cgroup {
            false => Holder::None,
            true if self.hosts[self.servers[index].host].blind.cgroup => {
                Holder::Failed("no descriptor".to_owned())
            }
            true => {
                self.kill_cgroup(index);
                self.servers[index].cgroup = false;
                Holder::Empty(Proof::CgroupEmpty)
            }
        }
    }

    /// Concludes without a report of the guardian.
    fn take_over(&mut self, index: usize) -> Result<(), String> {
        let blind = self.hosts[self.servers[index].host].blind;
        let (main, start) = self.servers[index].main;
        let main_is = |process: &&Proc| process.start == start && !process.zombie;
        let seen = match self.processes.get(&main).filter(main_is) {
            _ if blind.main => Main::Unknown,
            None => Main::Ended,
            Some(process) if process.inside == Some(index) => Main::Inside,
            Some(_) => Main::Outside,
        };
        if seen == Main::Outside {
            self.kill(main, index)?;
        }
        let holder = self.empty_cgroup(index);
        if !blind.marks {
            for pid in self.marked(index, |_| true) {
                self.kill(pid, index)?;
            }
        }
        let emptied = Emptied {
            main: seen,
            holder,
            inside: Inside::default(),
        };
        let searched = self.adopted(index);
        self.note(|| format!("the host takes server {index} over: {emptied:?}, {searched:?}"));
        match (self.decisions.verdict)(&emptied, &searched) {
            Ok(_) => self.claim(index),
            Err(_) => {
                self.servers[index].proven = Some(false);
                Ok(())
            }
        }
    }

    /// Finds reparented processes that may be the server's.
    fn adopted(&self, index: usize) -> Result<Found, String> {
        let server = &self.servers[index];
        if self.hosts[server.host].blind.marks {
            return Err("no descriptor".to_owned());
        }
        let processes = self.processes.iter().map(|(pid, process)| {
            let process = Seen {
                pid: *pid,
                parent: process.parent,
                session: process.session,
                group: process.group,
                start_time: process.start,
                state: match process.zombie {
                    true => ProcessState::Dead,
                    false => ProcessState::Live,
                },
                ..Seen::default()
            };
            (*pid, process)
        });
        let scene = Scene {
            processes: processes.collect(),
            adopters: [INIT, FOREIGN_INIT].into(),
            own_sessions: (self.decisions.own_sessions)(self.sessions_of(server.host)),
        };
        let adopted = scene.adopted_since(server.since);
        let whose = |pid: u32| {
            let process = &self.processes[&pid];
            let cookie = |of: usize| self.servers[of].cookie.clone();
            match (process.inside, process.owner, process.said) {
                (Some(of), ..) if self.servers[of].host == server.host => {
                    Whose::InCgroup(name(&cookie(of)))
                }
                (_, Owner::Server(of) | Owner::Guardian(of), Said::Truth) => {
                    Whose::Says(cookie(of))
                }
                _ => Whose::Anybody,
            }
        };
        let may_be = self.decisions.may_be;
        let left = adopted
            .iter()
            .find(|it| may_be(&whose(it.pid), &server.cookie, server.since));
        Ok(super::found(left.map(|process| process.pid.to_string())))
    }

    /// The sessions of a living host: of its first launch, and now.
    fn sessions_of(&self, host: usize) -> [u32; 2] {
        let host = &self.hosts[host];
        [host.session, self.processes[&host.pid].session]
    }

    /// Publishes the proof, and checks that nothing of the server is left.
    fn claim(&mut self, index: usize) -> Result<(), String> {
        self.note(|| format!("server {index} is proven gone"));
        self.servers[index].proven = Some(true);
        self.servers[index].recorded = false;
        let guarded = self.servers[index].gone;
        for (pid, process) in self.alive_of(index) {
            // The evidence has a name: all descendants were reaped, and no process in another namespace
            // carries the mark.
            let unseen = guarded
                && process.inside != Some(index)
                && process.foreign
                && process.said != Said::Truth;
            if !unseen {
                return Err(format!("WRONG PROOF: {pid} of server {index} lives"));
            }
        }
        Ok(())
    }

    fn below(&self, pid: u32) -> Vec<u32> {
        let mut found: Vec<u32> = self.children_of(pid).collect();
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(self.children_of(pid));
            next += 1;
        }
        found
    }

    fn kill(&mut self, pid: u32, index: usize) -> Result<(), String> {
        match self.processes.get(&pid).map(|process| process.owner) {
            Some(Owner::Server(of)) if of == index => {
                self.die(pid);
                Ok(())
            }
            None => Ok(()),
            owner => Err(format!(
                "A STRANGER: the host of server {index} kills {pid} of {owner:?}"
            )),
        }
    }
}
