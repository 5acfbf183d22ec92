//! The acts of the next host for dead hosts, as `reap`, `search` and `hunt` do them.

use std::collections::BTreeSet;

use super::super::settle::{Evidence, LeafState, Looked, Settlement};
use super::super::verdict::{DeadHost, Emptying, Hosts, Mark, Process, Scene, Verdict, may_be_of};
use super::random::Random;
use super::world::{BOOT, Hindered, Owner, Said, World};

/// The PID namespace of this world, but for the foreign one.
const NAMESPACE: u64 = 7;
/// The pid of the searching process.
const REAPER: u32 = 9;
/// The number of looks in a row that must find none.
const CLEAN_LOOKS: u32 = 2;

impl World {
    /// Lets the next host search for orphans: from the PID namespace of all others (`sees`) or from
    /// another one, and in `blind` per cent of the cases without descriptors.
    pub(super) fn reap(
        &mut self,
        random: &mut Random,
        sees: bool,
        blind: u64,
    ) -> Result<(), String> {
        let blind = random.percent(blind);
        let found = self.hosts.iter().enumerate();
        let found = found.filter(|(_, host)| !host.alive && host.ledger);
        let found: Vec<usize> = found.map(|(index, _)| index).collect();
        self.note(|| format!("a search for {found:?}; sees {sees}, blind {blind}"));
        if found.is_empty() {
            return Ok(());
        }
        let dead: Vec<DeadHost> = found
            .iter()
            .map(|host| DeadHost {
                id: self.hosts[*host].id.clone(),
                namespace: NAMESPACE,
                servers: Vec::new(),
            })
            .collect();
        let hosts = Hosts {
            this: None,
            this_pid: REAPER,
            boot_id: BOOT,
            dead: &dead,
        };
        let mut all_leaves = Vec::new();
        for host in &found {
            let mut leaves = Vec::new();
            for index in 0..self.servers.len() {
                if self.servers[index].host == *host && self.servers[index].recorded {
                    let leaf = self.servers[index].has_cgroup;
                    leaves.push(match leaf {
                        true => Some(self.empty(&hosts, index, sees, blind)?),
                        false => None,
                    });
                }
            }
            all_leaves.push(leaves);
        }
        let failed = match (sees, blind) {
            (_, true) => Some("no descriptor".to_owned()),
            (false, _) => Some("another PID namespace".to_owned()),
            _ => self.end_marked(&hosts, random)?,
        };
        for ((host, dead), servers) in found.into_iter().zip(&dead).zip(all_leaves) {
            let evidence = Evidence {
                servers,
                unreadable: 0,
                looked: self.look_back(host, dead, failed.clone()),
            };
            let settlement = (self.decisions.settle)(&evidence);
            self.note(|| format!("host {host}: {evidence:?}: {settlement:?}"));
            if settlement == Settlement::Settled {
                self.forget(host)?;
            }
        }
        Ok(())
    }

    fn empty(
        &mut self,
        hosts: &Hosts<'_>,
        index: usize,
        sees: bool,
        blind: bool,
    ) -> Result<LeafState, String> {
        if blind {
            return Ok(LeafState::Unseen("no descriptor".to_owned()));
        }
        if !self.servers[index].cgroup {
            return Ok(LeafState::Gone);
        }
        let scene = if sees { self.scene() } else { Scene::default() };
        let inside = self.processes.iter();
        let inside = inside.filter(|(_, process)| process.inside == Some(index));
        let members: Vec<u32> = inside.map(|(pid, _)| if sees { *pid } else { 0 }).collect();
        let owner = self.hosts[self.servers[index].host].id.clone();
        match (self.decisions.empty)(hosts, &owner, &members, &scene) {
            Emptying::All => {
                for pid in &members {
                    self.end(*pid)?;
                }
                self.servers[index].cgroup = false;
                Ok(LeafState::Gone)
            }
            Emptying::Each => Ok(LeafState::Occupied),
            Emptying::Nothing => Ok(LeafState::Unseen("a foreign process".to_owned())),
        }
    }

    /// Ends the marked processes. Returns why some may not have been found, if so.
    fn end_marked(
        &mut self,
        hosts: &Hosts<'_>,
        random: &mut Random,
    ) -> Result<Option<String>, String> {
        let mut clean = 0;
        for _ in 0..20 {
            let scene = self.scene();
            clean += 1;
            for process in scene.processes.values() {
                let verdict = (self.decisions.judge)(hosts, process, &scene);
                // The pid may have been reused since the look.
                let is_same = self.processes.get(&process.pid).is_some_and(|now| {
                    now.start == process.start_time && self.mark(now) == process.mark
                });
                match verdict {
                    Verdict::End | Verdict::Wait => clean = 0,
                    Verdict::Spare | Verdict::Doubt | Verdict::Pass => continue,
                }
                if is_same && verdict == Verdict::End {
                    self.end(process.pid)?;
                } else if is_same {
                    self.wait_for_guardian(process.pid)?;
                }
                if random.percent(30) {
                    self.live(random);
                }
            }
            if clean == CLEAN_LOOKS {
                return Ok(None);
            }
        }
        Ok(Some("the search ran out of time".to_owned()))
    }

    /// Resumes a stopped guardian, and lets it run.
    fn wait_for_guardian(&mut self, pid: u32) -> Result<(), String> {
        let Some(Owner::Guardian(server)) = self.processes.get(&pid).map(|process| process.owner)
        else {
            return Ok(());
        };
        if self.servers[server].hindered == Hindered::Stopped {
            self.servers[server].hindered = Hindered::No;
        }
        for _ in 0..4 {
            self.guardian_turn(server)?;
            self.now += 1 << 28;
        }
        Ok(())
    }

    fn look_back(&self, host: usize, dead: &DeadHost, failed: Option<String>) -> Looked {
        let scene = self.scene();
        let is_theirs = |process: &&Process| matches!(&process.mark, Mark::Cookie(cookie) if *cookie.host() == dead.id);
        let on_record = self
            .servers
            .iter()
            .filter(|server| server.host == host && server.recorded);
        let mut on_record = on_record.filter_map(|server| {
            let (pid, start) = server.main;
            let process = scene.processes.get(&pid)?;
            (process.start_time == start).then_some(process)
        });
        if failed.is_none() {
            let survives = scene.processes.values().filter(is_theirs).count() > 0;
            if survives || on_record.next().is_some() {
                return Looked::Survivor;
            }
        }
        if let Some(why) = failed {
            return Looked::Unseen(why);
        }
        let is_suspect = |process: &Process| {
            matches!(process.mark, Mark::Unseen(_)) && may_be_of(process, &dead.id)
        };
        match scene.processes.values().any(is_suspect) {
            true => Looked::Suspect,
            false => Looked::Clear,
        }
    }

    /// Removes the ledger of a dead host: its servers are never searched for again.
    fn forget(&mut self, host: usize) -> Result<(), String> {
        self.hosts[host].ledger = false;
        for index in 0..self.servers.len() {
            if self.servers[index].host != host || !self.servers[index].recorded {
                continue;
            }
            // A process without a mark and outside of the cgroup is never found; nor is one that hides
            // its mark, if the cgroup is gone.
            let elsewhere = |process: &super::world::Proc| process.inside != Some(index);
            for (pid, process) in self.alive_of(index) {
                let unfindable = elsewhere(process)
                    && match process.said {
                        Said::Truth => false,
                        Said::Nothing => true,
                        Said::Hidden => self.servers[index].has_cgroup,
                    };
                if !unfindable {
                    return Err(format!("FORGOTTEN: {pid} of server {index} lives"));
                }
            }
        }
        Ok(())
    }

    fn scene(&self) -> Scene {
        let processes = self.processes.iter().filter(|(_, process)| !process.zombie);
        let processes = processes.map(|(pid, process)| {
            let seen = Process {
                pid: *pid,
                parent: process.parent,
                start_time: process.start,
                name: String::new(),
                stays: false,
                is_guardian: matches!(process.owner, Owner::Guardian(_)),
                container: None,
                mark: self.mark(process),
            };
            (*pid, seen)
        });
        let living = self.hosts.iter().filter(|host| host.alive);
        Scene {
            processes: processes.collect(),
            hosts: living.map(|host| host.pid).collect::<BTreeSet<u32>>(),
        }
    }

    fn mark(&self, process: &super::world::Proc) -> Mark {
        let (Owner::Server(server) | Owner::Guardian(server)) = process.owner else {
            return Mark::None;
        };
        match process.said {
            Said::Truth => Mark::Cookie(self.servers[server].cookie.clone()),
            Said::Nothing => Mark::None,
            Said::Hidden => Mark::Unseen("not readable".to_owned()),
        }
    }

    /// Lets the reaper kill a process, and checks that it is an orphan.
    fn end(&mut self, pid: u32) -> Result<(), String> {
        let owner = self.processes.get(&pid).map(|process| process.owner);
        let host = |server: usize| &self.hosts[self.servers[server].host];
        match owner {
            Some(Owner::Server(server)) if !host(server).alive => {
                self.die(pid);
                Ok(())
            }
            None => Ok(()),
            owner => Err(format!("A STRANGER: the reaper kills {pid} of {owner:?}")),
        }
    }
}
