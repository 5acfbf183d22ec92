//! Reaps processes, and keeps the names of those that had to be ended. Names are read between death
//! and reaping, so that killing never waits for it.

use crate::procfs;
use crate::protocol::{COMM_LEN, LISTING_MAX, Listing, ListingBuilder};
use crate::sys::{self, Once, Pid, Reaped};

static NAMES: Once<ListingBuilder> = Once::new(ListingBuilder::new());

pub(crate) struct Swept {
    names: &'static mut ListingBuilder,
    /// Name of a zombie that may be counted.
    last: Option<(Pid, [u8; COMM_LEN])>,
}

impl Swept {
    pub(crate) fn take() -> Option<Self> {
        NAMES.take().map(|names| Self { names, last: None })
    }

    /// Reaps one exited child. Reads its name first if it will be `named`.
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
            // Later deaths raise a signal. Reaped now, they would have no name.
            Ok(None) => Reaped::NoneYet,
            Err(_) => sys::reap(),
        }
    }

    pub(crate) fn count(&mut self, pid: u32) {
        let name = self.last.take().filter(|(known, _)| known.get() == pid);
        self.names.push(pid, &name.map_or([0; COMM_LEN], |(_, name)| name));
    }

    pub(crate) fn total(&self) -> u32 {
        self.names.finish().total()
    }

    pub(crate) fn into_listing(self) -> Listing<'static> {
        self.names.finish()
    }
}
