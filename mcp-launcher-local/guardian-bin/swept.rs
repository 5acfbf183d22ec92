//! Reaping, and the names of whoever had to be ended.
//!
//! A name is read between the death and the reaping, when nothing waits for it: killing never does.

use crate::procfs;
use crate::protocol::{COMM_LEN, LISTING_MAX, Listing, ListingBuilder};
use crate::sys::{self, Once, Pid, Reaped};

static NAMES: Once<ListingBuilder> = Once::new(ListingBuilder::new());

/// Those that were reaped after the tree had been signalled.
pub(crate) struct Swept {
    names: &'static mut ListingBuilder,
    /// Read from a zombie, of which nobody knows yet whether it counts.
    last: Option<(Pid, [u8; COMM_LEN])>,
}

impl Swept {
    /// The one list there is memory for.
    pub(crate) fn take() -> Option<Self> {
        NAMES.take().map(|names| Self { names, last: None })
    }

    /// Reaps one child if one has exited. `named`: whether it is going to be counted.
    pub(crate) fn reap(&mut self, named: bool) -> Reaped {
        let has_room = self.names.finish().total() < LISTING_MAX as u32;
        if !(named && has_room) {
            return sys::reap();
        }
        match sys::next_dead() {
            Ok(Some(dead)) => {
                self.last = procfs::stat(dead.get()).map(|stat| (dead, stat.comm));
                sys::reap_one(dead)
            }
            // Whoever dies from here on is told by a signal. Reaped now, it would have no name.
            Ok(None) => Reaped::NoneYet,
            Err(_) => sys::reap(),
        }
    }

    /// Counts a process that was reaped just now.
    pub(crate) fn count(&mut self, pid: u32) {
        let name = self.last.take().filter(|(known, _)| known.get() == pid);
        self.names.push(pid, &name.map_or([0; COMM_LEN], |(_, name)| name));
    }

    /// How many they are.
    pub(crate) fn total(&self) -> u32 {
        self.names.finish().total()
    }

    /// All of them, at the end.
    pub(crate) fn into_listing(self) -> Listing<'static> {
        self.names.finish()
    }
}
