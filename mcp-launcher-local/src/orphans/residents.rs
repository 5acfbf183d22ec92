//! Who is known to be in this host's PID namespace, from one search to the next.
//!
//! A process is in the same PID namespace for life (`pid_namespaces(7)`), so what was asked
//! once need not be asked at each end of a server: a search is then little more than one
//! listing of `/proc`. A process is known again by its number *and* the inode of its directory.
//! The kernel gives each such directory a number of its own, counted up in 32 bits.

use std::mem;
use std::sync::{Mutex, PoisonError};

use crate::sys::ProcEntry;

/// Those whom the last search has found here, in order.
static LAST: Mutex<Vec<ProcEntry>> = Mutex::new(Vec::new());

/// The processes of this PID namespace: those of the last search, and those of this one.
pub(super) struct Residents {
    before: Vec<ProcEntry>,
    now: Vec<ProcEntry>,
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

    /// Returns whether the process was found here before; then it is kept.
    pub(super) fn still_has(&mut self, entry: &ProcEntry) -> bool {
        let is_known = self.before.binary_search(entry).is_ok();
        if is_known {
            self.now.push(*entry);
        }
        is_known
    }

    /// Notes a process that is here.
    pub(super) fn note(&mut self, entry: ProcEntry) {
        self.now.push(entry);
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
            before: vec![entry(1, 10), entry(2, 11), entry(7, 12)],
            now: Vec::new(),
        };
        assert!(residents.still_has(&entry(2, 11)));
        assert!(!residents.still_has(&entry(7, 13)));
        assert!(!residents.still_has(&entry(8, 12)));
        residents.note(entry(7, 13));
        assert_eq!(residents.now, [entry(2, 11), entry(7, 13)]);
    }
}
