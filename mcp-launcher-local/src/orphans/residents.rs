//! Who is known to be in this host's PID namespace, from one search to the next.
//!
//! A process is in the same PID namespace for life (`pid_namespaces(7)`), so what was asked
//! once need not be asked at each end of a server: a search is then little more than one
//! listing of `/proc`. A process is known again by its number *and* the inode of its directory.
//! The kernel gives each such directory a number of its own, counted up in 32 bits.
//!
//! Who is elsewhere, or may not be looked at, was started at some time: it is no process of a server that began later,
//! and is not asked at the end of that one either. To a host that is not root, most of a machine is like that.

use std::mem;
use std::sync::{Mutex, PoisonError};

use crate::sys::ProcEntry;

/// Those whom the last search has found, in order.
static LAST: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The processes of this PID namespace, and others that are known: those of the last search, and those of this one.
pub(super) struct Residents {
    before: Vec<Known>,
    now: Vec<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    entry: ProcEntry,
    /// Of one that is not known to be here: when it was started, in clock ticks since boot.
    started: Option<u64>,
}

impl Residents {
    /// Whom the last search has found. Two at once do not know the same: the second asks everybody.
    pub(super) fn of_last_search() -> Self {
        let before = mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner));
        let now = Vec::with_capacity(before.len() + 64);
        Self { before, now }
    }

    /// How many the last search has found.
    pub(super) fn len(&self) -> usize {
        self.before.len()
    }

    /// Returns whether the process was found here before, or is older than `since`; then it is kept.
    pub(super) fn still_has(&mut self, entry: &ProcEntry, since: u64) -> bool {
        let found = self.before.binary_search_by_key(entry, |known| known.entry);
        let known = found.ok().map(|at| self.before[at]);
        let known = known.filter(|known| known.started.is_none_or(|started| started < since));
        self.now.extend(known);
        known.is_some()
    }

    /// Notes a process that is here.
    pub(super) fn note(&mut self, entry: ProcEntry) {
        let started = None;
        self.now.push(Known { entry, started });
    }

    /// Notes a process that was started then, wherever it is.
    pub(super) fn note_start(&mut self, entry: ProcEntry, started: u64) {
        let started = Some(started);
        self.now.push(Known { entry, started });
    }
}

/// Leaves them to the next search. Who was not listed by this one is forgotten.
impl Drop for Residents {
    fn drop(&mut self) {
        // It has listed nobody.
        if self.now.is_empty() {
            mem::swap(&mut self.now, &mut self.before);
        }
        self.now.sort_unstable();
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = mem::take(&mut self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn entry_of(pid: u32) -> Option<ProcEntry> {
        let all = sys::entries_of_proc().unwrap();
        all.into_iter().find(|entry| entry.pid == pid)
    }

    #[test]
    fn a_process_has_its_inode_as_long_as_it_lives_and_the_next_one_has_another() {
        let own = entry_of(std::process::id()).unwrap();
        let mut inodes = Vec::new();
        for _ in 0..20 {
            let mut child = std::process::Command::new("sleep")
                .arg("1000")
                .spawn()
                .unwrap();
            let listed = [(); 2].map(|()| entry_of(child.id()).unwrap());
            child.kill().unwrap();
            // A zombie is listed too.
            let dead = entry_of(child.id()).unwrap();
            child.wait().unwrap();
            assert_eq!(listed, [dead; 2]);
            inodes.push(dead.inode);
        }
        inodes.sort_unstable();
        inodes.dedup();
        assert_eq!(inodes.len(), 20);
        assert_eq!(entry_of(std::process::id()), Some(own));
    }

    #[test]
    fn who_is_not_listed_any_more_is_forgotten_and_a_number_alone_is_not_known() {
        let entry = |pid, inode| ProcEntry { pid, inode };
        let mut residents = Residents {
            before: Vec::new(),
            now: Vec::new(),
        };
        for (pid, inode) in [(1, 10), (2, 11), (7, 12)] {
            residents.note(entry(pid, inode));
        }
        residents.before = mem::take(&mut residents.now);
        assert!(residents.still_has(&entry(2, 11), 0));
        assert!(!residents.still_has(&entry(7, 13), 0));
        assert!(!residents.still_has(&entry(8, 12), 0));
        residents.note(entry(7, 13));
        let now: Vec<_> = residents.now.iter().map(|known| known.entry).collect();
        assert_eq!(now, [entry(2, 11), entry(7, 13)]);
    }

    #[test]
    fn who_is_elsewhere_is_known_to_servers_that_began_later() {
        let entry = ProcEntry { pid: 3, inode: 10 };
        let mut residents = Residents {
            before: Vec::new(),
            now: Vec::new(),
        };
        residents.note_start(entry, 100);
        residents.before = mem::take(&mut residents.now);
        // In the same tick: it may be theirs.
        assert!(!residents.still_has(&entry, 100));
        assert!(residents.now.is_empty());
        assert!(residents.still_has(&entry, 101));
        assert_eq!(residents.now, residents.before);
    }
}
