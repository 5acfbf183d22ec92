//! The system calls of a hunt on macOS, and of the notes that tell when to look. Unmeasured: compiled, and run on no machine of ours.

use std::io;

use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

use super::super::Pid;
use super::{facts, ids};
use crate::identity::VARIABLE;
use crate::lineage::{Listing, Order, Processes, Seen, Sent, System, Witness};

/// This machine, for one server.
#[derive(Debug)]
pub(super) struct Xnu {
    notes: &'static Kqueue,
    server: Pid,
    /// The variable that its processes carry, with its name.
    mark: Option<String>,
    /// What is told of whoever is watched.
    what: FilterFlag,
}

impl Xnu {
    pub(super) fn new(
        notes: &'static Kqueue,
        server: Pid,
        identity: Option<String>,
        what: FilterFlag,
    ) -> Self {
        Self {
            notes,
            server,
            mark: identity.map(|identity| format!("{VARIABLE}={identity}")),
            what,
        }
    }

    fn change(&self, pid: Pid, flags: EvFlags) {
        let change = KEvent::new(
            pid.as_u32() as usize,
            EventFilter::EVFILT_PROC,
            flags,
            self.what,
            0,
            self.server.as_u32() as isize,
        );
        // ESRCH: it has ended, which the next look shows.
        let _ = self.notes.kevent(&[change], &mut [], None);
    }
}

impl Processes for Xnu {
    fn list(&mut self) -> io::Result<Listing> {
        facts::everybody()
    }

    fn ask(&mut self, pid: Pid) -> io::Result<Option<Seen>> {
        ids::seen(pid)
    }

    fn send(&mut self, pid: Pid, order: Order) -> Sent {
        ids::send(pid, order)
    }
}

impl System for Xnu {
    fn witness(&mut self, pid: Pid) -> Witness {
        match &self.mark {
            Some(mark) => facts::witness(pid, mark),
            None => Witness::Hidden,
        }
    }

    fn watch(&mut self, pid: Pid) {
        self.change(pid, EvFlags::EV_ADD | EvFlags::EV_CLEAR);
    }

    fn unwatch(&mut self, pid: Pid) {
        self.change(pid, EvFlags::EV_DELETE);
    }
}
