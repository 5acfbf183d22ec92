//! How members are held and ended: SIGSTOP, a question, SIGKILL.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::graph::{Lineage, Looks};
use super::rules::{Rules, Stopped};
use super::{Order, Processes, Seen, Sent, System};

/// What came of holding somebody.
pub(super) enum Hold {
    Held,
    Gone,
    Refused,
}

impl Lineage {
    /// Ends all members that live: they are held until nobody is found who runs, and then killed. Returns how many were.
    ///
    /// Who was killed may take a moment to die, and a storm of forks may have outrun it: to be called again when
    /// somebody has ended, until none of [`living`](Self::living) is left.
    ///
    /// # Errors
    ///
    /// Processes cannot be listed. Who was held by then is killed all the same.
    pub(crate) fn end(&mut self, system: &mut impl System) -> io::Result<usize> {
        let (held, looked) = self.hold_all(system);
        let mut killed = 0;
        for one in held.values() {
            if let Hold::Held = hold(&self.rules, system, one)
                && system.send(one.pid, Order::Kill) == Sent::Given
            {
                killed += 1;
            }
        }
        looked.map(|()| killed)
    }

    /// Sends SIGTERM to all members that are not in this process group, which has got it already.
    ///
    /// # Errors
    ///
    /// Processes cannot be listed. Who is known has got it all the same.
    pub(crate) fn ask_to_end(&mut self, system: &mut impl System, group: u32) -> io::Result<()> {
        let looked = self.tend(system);
        let outside: Vec<Seen> = self
            .living()
            .filter(|one| one.group != group)
            .copied()
            .collect();
        for one in outside {
            if let Hold::Held = hold(&self.rules, system, &one) {
                system.send(one.pid, Order::Terminate);
                system.send(one.pid, Order::Continue);
            }
        }
        looked
    }

    /// Holds everybody who runs, until a look finds no more; returns whom it holds.
    fn hold_all(&mut self, system: &mut impl System) -> (BTreeMap<u64, Seen>, io::Result<()>) {
        let mut held = BTreeMap::new();
        let mut refused = BTreeSet::new();
        let mut looks = Looks::default();
        while looks.goes_on() {
            let look = match self.look(system) {
                Ok(look) => look,
                Err(error) => return (held, Err(error)),
            };
            let running = self.living();
            let running = running.filter(|one| !held.contains_key(&one.unique));
            let running = running.filter(|one| !refused.contains(&one.unique));
            let running: Vec<Seen> = running.copied().collect();
            if looks.is_over(&self.rules, running.len() + look.news, look.is_whole) {
                break;
            }
            for one in running {
                match hold(&self.rules, system, &one) {
                    Hold::Held => drop(held.insert(one.unique, one)),
                    Hold::Gone => {}
                    Hold::Refused => drop(refused.insert(one.unique)),
                }
            }
        }
        (held, Ok(()))
    }
}

/// Stops this process, and nobody else for longer than it takes to see that.
pub(super) fn hold(rules: &Rules, system: &mut impl Processes, one: &Seen) -> Hold {
    let before = system.ask(one.pid).ok().flatten();
    if !(rules.is_same)(one, before.as_ref()) {
        return Hold::Gone;
    }
    match system.send(one.pid, Order::Stop) {
        Sent::Given => {}
        Sent::Nobody => return Hold::Gone,
        Sent::Refused => return Hold::Refused,
    }
    let Ok(after) = system.ask(one.pid) else {
        // Nobody is left stopped who may be a stranger.
        system.send(one.pid, Order::Continue);
        return Hold::Refused;
    };
    match (rules.after_stop)(one, after.as_ref()) {
        Stopped::Held => Hold::Held,
        Stopped::Stranger => {
            system.send(one.pid, Order::Continue);
            Hold::Gone
        }
        Stopped::Gone => Hold::Gone,
    }
}
