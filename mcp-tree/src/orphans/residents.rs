//! A cache of the processes known to be in this host's PID namespace, from one search to the next.
//!
//! A process is in the same PID namespace for life (`pid_namespaces(7)`), so a search is little more
//! than one listing of `/proc`. A process is recognized by its pid *and* the inode of its directory,
//! which the kernel numbers by a 32-bit counter. Of one that is elsewhere, or may not be examined,
//! the start time is kept: it belongs to no server that was started later.

use std::mem;

use mcp_lifecycle_core::lock::Lock;

use crate::sys::ProcEntry;

static LAST: Lock<Vec<Known>> = Lock::new(Vec::new());

pub(super) struct Residents {
    before: Vec<Known>,
    now: Vec<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    entry: ProcEntry,
    /// The start time in clock ticks since boot, if it is not known to be in this namespace.
    started: Option<u64>,
}

impl Residents {
    /// Takes the cache. A second search at the same time finds it empty.
    pub(super) fn of_last_search() -> Self {
        let before = mem::take(&mut *LAST.lock());
        let now = Vec::with_capacity(before.len() + 64);
        Self { before, now }
    }

    pub(super) fn len(&self) -> usize {
        self.before.len()
    }

    /// Returns whether the process is known to be in this namespace or older than `since`, and keeps it
    /// then.
    pub(super) fn still_has(&mut self, entry: &ProcEntry, since: u64) -> bool {
        let found = self.before.binary_search_by_key(entry, |known| known.entry);
        let known = found.ok().map(|at| self.before[at]);
        let known = known.filter(|known| known.started.is_none_or(|started| started < since));
        self.now.extend(known);
        known.is_some()
    }

    /// Adds a process of this namespace, or one of any namespace by its start time.
    pub(super) fn note(&mut self, entry: ProcEntry, started: Option<u64>) {
        self.now.push(Known { entry, started });
    }
}

/// Leaves the cache to the next search, without the processes that were not listed by this one.
impl Drop for Residents {
    fn drop(&mut self) {
        // The listing failed.
        if self.now.is_empty() {
            mem::swap(&mut self.now, &mut self.before);
        }
        self.now.sort_unstable();
        *LAST.lock() = mem::take(&mut self.now);
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
    fn the_inode_of_a_process_is_not_reused() {
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
    fn unlisted_pids_are_forgotten() {
        let entry = |pid, inode| ProcEntry { pid, inode };
        let mut residents = Residents {
            before: Vec::new(),
            now: Vec::new(),
        };
        for (pid, inode) in [(1, 10), (2, 11), (7, 12)] {
            residents.note(entry(pid, inode), None);
        }
        residents.before = mem::take(&mut residents.now);
        assert!(residents.still_has(&entry(2, 11), 0));
        assert!(!residents.still_has(&entry(7, 13), 0));
        assert!(!residents.still_has(&entry(8, 12), 0));
        residents.note(entry(7, 13), None);
        let now: Vec<_> = residents.now.iter().map(|known| known.entry).collect();
        assert_eq!(now, [entry(2, 11), entry(7, 13)]);
    }

    #[test]
    fn older_processes_are_skipped_for_later_servers() {
        let entry = ProcEntry { pid: 3, inode: 10 };
        let mut residents = Residents {
            before: Vec::new(),
            now: Vec::new(),
        };
        residents.note(entry, Some(100));
        residents.before = mem::take(&mut residents.now);
        // Started in the same tick, it may be the server's.
        assert!(!residents.still_has(&entry, 100));
        assert!(residents.now.is_empty());
        assert!(residents.still_has(&entry, 101));
        assert_eq!(residents.now, residents.before);
    }
}
