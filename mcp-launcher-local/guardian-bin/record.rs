//! What says where the server is: its cgroup, and its line in a ledger. Removed here, where the host has left that to its guardian.

use core::ffi::CStr;

use crate::parse::subdirectories;
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
    /// The ledger with the file itself, whose lock says that somebody looks after the server.
    ledger: Option<(Entry, Fd)>,
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
            ledger: entry(params.ledger_dir.take(), params.ledger_name).zip(params.ledger.take()),
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
