//! Who descends from a server: the links of everybody who was seen.

use std::collections::BTreeMap;
use std::io;

use super::rules::{Kin, RULES, Rules};
use super::{Seen, System};

/// One server and its descendants, as far as they were seen.
#[derive(Debug)]
pub(crate) struct Lineage {
    server: u64,
    members: BTreeMap<u64, Member>,
    pub(super) rules: Rules,
}

#[derive(Debug)]
struct Member {
    seen: Seen,
    is_dead: bool,
    is_watched: bool,
}

/// What a look has shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Members that were not known before, or that have died since the look before: who has died while this one was made may
    /// have started somebody after it was listed.
    pub(super) news: usize,
    pub(super) is_whole: bool,
}

/// How often it is looked before what is found has to do: a storm of forks.
pub(super) const LOOKS: usize = 64;
/// How often in a row a look may be incomplete without showing anybody new: somebody is there who answers to nobody.
const FRUITLESS: usize = 4;

impl Lineage {
    /// The lineage of this process, which has not been reaped.
    pub(crate) fn of(server: Seen) -> Self {
        let member = Member {
            seen: server,
            is_dead: server.is_zombie,
            is_watched: false,
        };
        Self {
            server: server.unique,
            members: BTreeMap::from([(server.unique, member)]),
            rules: RULES,
        }
    }

    /// The unique id of the server itself.
    #[cfg(target_os = "macos")]
    pub(crate) fn server(&self) -> u64 {
        self.server
    }

    /// The members that lived when they were last looked at.
    pub(crate) fn living(&self) -> impl Iterator<Item = &Seen> {
        let living = self.members.values().filter(|member| !member.is_dead);
        living.map(|member| &member.seen)
    }

    /// Looks until nobody new is found, and has everybody watched. For each note of a fork.
    ///
    /// # Errors
    ///
    /// Processes cannot be listed.
    pub(crate) fn tend(&mut self, system: &mut impl System) -> io::Result<()> {
        let mut looks = Looks::default();
        while looks.goes_on() {
            let look = self.look(system)?;
            let unwatched = self.members.values();
            let unwatched = unwatched.filter(|member| !member.is_dead && !member.is_watched);
            let unwatched: Vec<Seen> = unwatched.map(|member| member.seen).collect();
            if looks.is_over(&self.rules, unwatched.len() + look.news, look.is_whole) {
                break;
            }
            for one in unwatched {
                system.watch(one.pid);
                let now = system.ask(one.pid).ok().flatten();
                if now.is_some_and(|now| now.unique != one.unique) {
                    system.unwatch(one.pid);
                }
                if let Some(member) = self.members.get_mut(&one.unique) {
                    member.is_watched = true;
                }
            }
        }
        Ok(())
    }

    /// Looks once.
    pub(super) fn look(&mut self, system: &mut impl System) -> io::Result<Look> {
        let listing = system.list()?;
        let mut is_whole = listing.is_whole;
        let mut found = BTreeMap::new();
        for pid in listing.pids {
            match system.ask(pid) {
                Ok(Some(seen)) => drop(found.insert(seen.unique, seen)),
                Ok(None) => {}
                Err(_) => is_whole = false,
            }
        }
        let new = self.relate(&found, system);
        let died = self.bury(&found, is_whole);
        Ok(Look {
            news: new + died,
            is_whole,
        })
    }

    /// Finds the new members, and returns how many there are. In the order of ids: who started somebody comes first.
    fn relate(&mut self, found: &BTreeMap<u64, Seen>, system: &mut impl System) -> usize {
        let mut others = BTreeMap::new();
        let mut new = 0;
        for (unique, seen) in found {
            if self.members.contains_key(unique) {
                continue;
            }
            let starter = match self.members.contains_key(&seen.started_by) {
                true => Some(Kin::Member),
                false => others.get(&seen.started_by).copied(),
            };
            let mut kin = (self.rules.kin)(seen, self.server, starter);
            if kin == Kin::Unlinked && !seen.is_zombie {
                let witness = system.witness(seen.pid);
                let after = system.ask(seen.pid).ok().flatten();
                if (self.rules.is_vouched)(seen, witness, after.as_ref()) {
                    kin = Kin::Member;
                }
            }
            if kin != Kin::Member {
                others.insert(*unique, kin);
                continue;
            }
            new += 1;
            let member = Member {
                seen: *seen,
                is_dead: seen.is_zombie,
                is_watched: false,
            };
            self.members.insert(*unique, member);
        }
        new
    }

    /// Takes note of who has died, and forgets whose children are all known. Returns how many were alive before.
    fn bury(&mut self, found: &BTreeMap<u64, Seen>, is_whole: bool) -> usize {
        let mut died = 0;
        let (server, may_forget) = (self.server, self.rules.may_forget);
        self.members.retain(|unique, member| {
            let was_dead = member.is_dead;
            if let Some(seen) = found.get(unique) {
                member.seen = *seen;
                member.is_dead = seen.is_zombie;
            } else {
                member.is_dead |= is_whole;
            }
            died += usize::from(member.is_dead && !was_dead);
            let is_there = *unique == server || found.contains_key(unique);
            is_there || !may_forget(was_dead, is_whole)
        });
        died
    }
}

/// The looks of one task, which has an end.
#[derive(Debug, Default)]
pub(super) struct Looks {
    made: usize,
    fruitless: usize,
}

impl Looks {
    pub(super) fn goes_on(&mut self) -> bool {
        self.made += 1;
        self.made <= LOOKS
    }

    /// Returns whether a look has left nothing to look for.
    pub(super) fn is_over(&mut self, rules: &Rules, new: usize, is_whole: bool) -> bool {
        self.fruitless = match new {
            0 => self.fruitless + 1,
            _ => 0,
        };
        (rules.is_settled)(new, is_whole) || self.fruitless >= FRUITLESS
    }
}

#[cfg(test)]
impl Lineage {
    pub(super) fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Everybody who is remembered, and whether it is watched.
    pub(super) fn remembered(&self) -> impl Iterator<Item = (u64, bool)> {
        let members = self.members.iter();
        members.map(|(unique, member)| (*unique, member.is_watched))
    }
}
