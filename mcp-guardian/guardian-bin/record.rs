//! The records of a server: its cgroup and its ledger, both removed here, and the history of its end.

use core::ffi::CStr;

use crate::account::Account;
use crate::ending::{Ending, HEAD_LEN};
use crate::parse::{is_counted, subdirectories};
use crate::protocol::{COMPANION_DONE, Listing, SERVER_GONE};
use crate::sys::{self, Errno, Fd, PollFd};

/// Number and interval of checks of an emptied cgroup. The kernel takes a moment; after that, a
/// process inside is an orphan of another PID namespace.
const ROUNDS: u32 = 200;
const PAUSE: u64 = 10_000_000;
const SHORT_ROUNDS: u32 = 20;
const SHORT_PAUSE: u64 = 500_000;
const DEPTH: u32 = 64;
/// Time of the companion beyond the grace, after which its containers are ended by force.
const COMPANION_LIMIT: u64 = 15_000_000_000;

pub(crate) struct Record {
    /// The server's cgroup, and its path from itself; empty if it is not removed here.
    pub(crate) leaf: Option<Fd>,
    pub(crate) path: &'static CStr,
    pub(crate) is_alone: bool,
    pub(crate) has_memory_limit: bool,
    /// Locked while the server has an owner.
    pub(crate) _ledger: Option<Fd>,
    pub(crate) ledger_dir: Option<Fd>,
    pub(crate) ledger_name: &'static CStr,
    pub(crate) ring: Option<Slot>,
    pub(crate) companion: Option<Fd>,
    pub(crate) account: Option<Account>,
}

/// A record in the history ring; its first half identifies the server.
pub(crate) struct Slot {
    ring: Fd,
    head: [u8; HEAD_LEN],
}

impl Slot {
    pub(crate) fn new(ring: Fd) -> Option<Self> {
        let mut head = [0; HEAD_LEN];
        let is_whole = sys::read(&ring, &mut head) == Ok(HEAD_LEN);
        is_whole.then_some(Self { ring, head })
    }

    /// Writes the end, unless the ring has wrapped around to a later server. The space is already
    /// allocated, so a full disk does not matter.
    fn complete(&self, ending: Ending) {
        let mut head = [0; HEAD_LEN];
        let is_back = sys::seek_back(&self.ring, HEAD_LEN).is_ok();
        if is_back && sys::read(&self.ring, &mut head) == Ok(HEAD_LEN) && head == self.head {
            let _ = sys::write(&self.ring, &ending.encode());
        }
    }
}

impl Record {
    pub(crate) fn removed(&self) -> Option<&Fd> {
        self.leaf.as_ref().filter(|_| !self.path.is_empty())
    }

    pub(crate) fn cgroup(&self) -> &[u8] {
        let path = self.removed().and_then(|_| self.path.to_bytes().strip_prefix(b"../"));
        path.unwrap_or_default()
    }

    /// Returns whether the kernel has killed because of the cgroup's own memory limit. Known while
    /// the cgroup exists.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let limited = self.removed().filter(|_| self.has_memory_limit);
        let says = |file, event| {
            let mut text = [0; 512];
            let file = limited.and_then(|cgroup| sys::open_in(cgroup, file).ok());
            let len = file.and_then(|file| sys::read(&file, &mut text).ok()).unwrap_or(0);
            is_counted(text.get(..len).unwrap_or_default(), event)
        };
        // A global shortage kills without the first event; a limit set below by the server has
        // neither.
        says(c"memory.events.local", b"oom") && says(c"memory.events", b"oom_kill")
    }

    pub(crate) fn complete(&self, ending: Ending, swept: Listing<'_>) {
        if let Some(slot) = &self.ring {
            slot.complete(ending);
        }
        if let (Some(account), Ending::Ended(ended)) = (&self.account, ending) {
            account.ended(&ended, swept);
        }
    }

    /// Asks the companion, if there is one, whether nothing else is left. A killed one does not reply.
    pub(crate) fn companion_is_done(&self, grace: u64) -> Option<bool> {
        let companion = self.companion.as_ref()?;
        let _ = sys::send(companion, &[SERVER_GONE]);
        let mut fds = [PollFd::readable(Some(companion))];
        sys::poll(&mut fds, Some(grace.saturating_add(COMPANION_LIMIT)));
        let mut word = [0];
        Some(sys::recv(companion, &mut word) == Ok(1) && word == [COMPANION_DONE])
    }

    /// Removes both once no descendant is left. Returns whether the cgroup is empty; otherwise both
    /// stay for the host or a later search. Without `kill`, a process inside is left alone.
    pub(crate) fn end(&self, kill: Option<&Fd>) -> bool {
        let emptied = self.removed().is_none_or(|cgroup| empty(cgroup, self.path, kill));
        if let Some(directory) = self.ledger_dir.as_ref().filter(|_| emptied) {
            let _ = sys::unlink(directory, self.ledger_name);
        }
        emptied
    }
}

fn empty(cgroup: &Fd, path: &CStr, kill: Option<&Fd>) -> bool {
    for round in 0..ROUNDS {
        match (remove(cgroup, path, DEPTH), kill) {
            (Ok(()), _) => return true,
            (Err(_), Some(kill)) => {
                let _ = sys::write(kill, b"1");
            }
            // The host does the rest at once, unless a process inside is just exiting.
            (Err(errno), None) if errno != Errno::EBUSY || has_member(cgroup) => return false,
            (Err(_), None) => {}
        }
        let pause = if round < SHORT_ROUNDS { SHORT_PAUSE } else { PAUSE };
        sys::poll(&mut [], Some(pause));
    }
    false
}

/// Returns whether a process is in a cgroup. One that is exiting is not listed.
fn has_member(cgroup: &Fd) -> bool {
    let procs = sys::open_in(cgroup, c"cgroup.procs");
    procs.is_ok_and(|procs| matches!(sys::read(&procs, &mut [0; 8]), Ok(1..)))
}

fn remove(parent: &Fd, name: &CStr, depth: u32) -> sys::Result<()> {
    match sys::remove_directory(parent, name) {
        Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::EBUSY) if depth > 0 => {}
        done => return done,
    }
    let directory = sys::open_directory(parent, name)?;
    let mut buffer = [0; 1024];
    while let Ok(len @ 1..) = sys::getdents(&directory, &mut buffer) {
        subdirectories(buffer.get(..len).unwrap_or_default(), &mut |inside| {
            let _ = remove(&directory, inside, depth - 1);
        });
    }
    sys::remove_directory(parent, name)
}
