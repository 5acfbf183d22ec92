//! The record of where the server is: its cgroup, and its line in a ledger. Removed here, where the host has left that to its guardian. And what is
//! kept of it after that: how it has ended.

use core::ffi::CStr;

use crate::ending::{Ending, HEAD_LEN};
use crate::parse::{is_counted, subdirectories};
use crate::params::Params;
use crate::sys::{self, Errno, Fd, Nanos};

/// How often an emptied cgroup is looked at, and how long in between. The kernel takes a moment; who is still inside then is somebody who was orphaned
/// in another PID namespace.
const ROUNDS: u32 = 200;
const PAUSE: Nanos = Nanos(10_000_000);
/// The first rounds follow each other faster.
const SHORT_ROUNDS: u32 = 20;
const SHORT_PAUSE: Nanos = Nanos(500_000);
/// How deep a server's cgroups are nested at most (`cgroup.max.depth`).
const DEPTH: u32 = 64;

/// Bytes of a name, its terminator included.
const NAME_MAX: usize = 64;

pub(crate) struct Record {
    cgroup: Option<Entry>,
    has_memory_limit: bool,
    /// The ledger with the file itself, whose lock says that somebody looks after the server.
    ledger: Option<(Entry, Fd)>,
    ring: Option<Slot>,
    /// Closed by the end of the guardian, and by nothing before.
    _companion: Option<Fd>,
}

/// A record in the ring of what ended, whose first half says whose it is.
struct Slot {
    ring: Fd,
    head: [u8; HEAD_LEN],
}

impl Slot {
    fn new(ring: Fd) -> Option<Self> {
        let mut head = [0; HEAD_LEN];
        let is_whole = sys::read(&ring, &mut head) == Ok(HEAD_LEN);
        is_whole.then_some(Self { ring, head })
    }

    /// Unless a later server has it by now: the ring has gone round. It was written once, so there is room for it on a full disk.
    fn complete(&self, ending: Ending) {
        let mut head = [0; HEAD_LEN];
        let is_back = sys::seek_back(&self.ring, HEAD_LEN).is_ok();
        if is_back && sys::read(&self.ring, &mut head) == Ok(HEAD_LEN) && head == self.head {
            let _ = sys::write(&self.ring, &ending.encode());
        }
    }
}

/// A name in a directory. A copy, because the arguments are released.
struct Entry {
    directory: Fd,
    name: [u8; NAME_MAX],
}

impl Entry {
    fn new(directory: Fd, name: &CStr) -> Option<Self> {
        let mut copy = [0; NAME_MAX];
        copy.get_mut(..name.to_bytes_with_nul().len())?
            .copy_from_slice(name.to_bytes_with_nul());
        (!name.is_empty()).then_some(Self {
            directory,
            name: copy,
        })
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or_default()
    }
}

impl Record {
    pub(crate) fn take(params: &mut Params<'_>) -> Self {
        let entry = |directory: Option<Fd>, name| Entry::new(directory?, name);
        Self {
            cgroup: entry(params.cgroup_dir.take(), params.cgroup_name),
            has_memory_limit: params.has_memory_limit,
            ledger: entry(params.ledger_dir.take(), params.ledger_name).zip(params.ledger.take()),
            ring: params.ring.take().and_then(Slot::new),
            _companion: params.companion.take(),
        }
    }

    /// The name of the cgroup, if it is removed here.
    pub(crate) fn cgroup(&self) -> &[u8] {
        self.cgroup.as_ref().map_or(&[], |cgroup| cgroup.name().to_bytes())
    }

    /// Whether the cgroup's own limit of memory was reached, and the kernel has killed for it. Known as long as there is the cgroup.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let limited = self.cgroup.as_ref().filter(|_| self.has_memory_limit);
        let directory = limited.and_then(|cgroup| sys::open_directory(&cgroup.directory, cgroup.name()).ok());
        let says = |file, event| {
            let mut text = [0; 512];
            let file = directory.as_ref().and_then(|directory| sys::open_in(directory, file).ok());
            let len = file.and_then(|file| sys::read(&file, &mut text).ok()).unwrap_or(0);
            is_counted(text.get(..len).unwrap_or_default(), event)
        };
        // The machine's own shortage kills as well, without the first; a limit that the server has set below, without either.
        says(c"memory.events.local", b"oom") && says(c"memory.events", b"oom_kill")
    }

    /// Writes down how the server has ended, where that is kept.
    pub(crate) fn complete(&self, ending: Ending) {
        if let Some(slot) = &self.ring {
            slot.complete(ending);
        }
    }

    /// Removes both, when no descendant is left. Says whether nobody is in the cgroup; if somebody is, the record stays for who searches later.
    pub(crate) fn end(&self, kill: Option<&Fd>) -> bool {
        let emptied = self.cgroup.as_ref().is_none_or(|cgroup| empty(cgroup, kill));
        if let Some((ledger, _)) = self.ledger.as_ref().filter(|_| emptied) {
            let _ = sys::unlink(&ledger.directory, ledger.name());
        }
        emptied
    }
}

fn empty(cgroup: &Entry, kill: Option<&Fd>) -> bool {
    for round in 0..ROUNDS {
        if remove(&cgroup.directory, cgroup.name(), DEPTH) {
            return true;
        }
        if let Some(kill) = kill {
            let _ = sys::write(kill, b"1");
        }
        let pause = if round < SHORT_ROUNDS { SHORT_PAUSE } else { PAUSE };
        sys::poll(&mut [], Some(pause));
    }
    false
}

/// Removes a cgroup that is empty, and those that the server has made inside of it.
fn remove(parent: &Fd, name: &CStr, depth: u32) -> bool {
    match sys::remove_directory(parent, name) {
        Ok(()) | Err(Errno::ENOENT) => return true,
        Err(_) if depth == 0 => return false,
        Err(_) => {}
    }
    let Ok(directory) = sys::open_directory(parent, name) else {
        return false;
    };
    let mut buffer = [0; 1024];
    while let Ok(len @ 1..) = sys::getdents(&directory, &mut buffer) {
        subdirectories(buffer.get(..len).unwrap_or_default(), &mut |inside| {
            let _ = remove(&directory, inside, depth - 1);
        });
    }
    sys::remove_directory(parent, name).is_ok()
}
