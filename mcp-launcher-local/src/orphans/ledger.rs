//! The ledger of this host.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::fcntl::{Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::Mode;

use super::format::{self, LINE, Record};
use super::{directory, shelf};
use crate::cgroup;
use crate::identity::{self, Cookie};

/// The open ledger. The lock is what says that this host lives; it is let go
/// by the kernel, when the process ends, however it ends.
#[derive(Debug)]
struct Ledger {
    file: Flock<File>,
    /// Where the servers' lines begin.
    first: u64,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    free: Vec<u64>,
    count: u64,
}

/// The line of one server. It stays, unless the server is said to have ended.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: &'static Ledger,
    line: u64,
    record: Record,
}

/// Writes down that a server is about to start. `None` where no ledger can be
/// kept: then nobody will be able to prove that this host is dead, and nobody
/// will touch its servers.
pub(crate) fn register(server: &Cookie, in_cgroup: bool) -> Option<Entry> {
    let ledger = Ledger::this()?;
    let line = {
        let mut lines = ledger.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.free.pop().unwrap_or_else(|| {
            lines.count += 1;
            lines.count - 1
        })
    };
    let record = Record {
        serial: server.serial(),
        process: None,
        in_cgroup,
    };
    let entry = Entry {
        ledger,
        line,
        record,
    };
    entry.write(format::line(record));
    Some(entry)
}

/// Writes down, once and for good, that this host has servers of which an end
/// cannot be proven: what has left the process group may outlive it.
pub(crate) fn register_uncontained(server: &Cookie) {
    static REGISTERED: OnceLock<Option<Entry>> = OnceLock::new();
    REGISTERED.get_or_init(|| register(server, false));
}

impl Entry {
    /// The server runs.
    pub(crate) fn started(&self, pid: u32, start_time: Option<u64>) {
        let process = start_time.map(|start_time| (pid, start_time));
        self.write(format::line(Record {
            process,
            ..self.record
        }));
    }

    /// Nothing is left of the server.
    pub(crate) fn end(self) {
        self.write(format::blank());
        let lines = self.ledger.lines.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        lines.free.push(self.line);
    }

    /// One write of a few bytes: it is there or it is not.
    fn write(&self, line: [u8; LINE]) {
        let at = self.ledger.first + self.line * LINE as u64;
        if let Err(error) = self.ledger.file.write_all_at(&line, at) {
            tracing::warn!(%error, "the ledger of this host cannot be written");
        }
    }
}

impl Ledger {
    /// Of this process, made when it is first asked for.
    fn this() -> Option<&'static Self> {
        static THIS: OnceLock<Option<Ledger>> = OnceLock::new();
        THIS.get_or_init(|| match Self::create() {
            Ok(ledger) => Some(ledger),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "no ledger can be kept: should this host and a guardian be killed together, \
                     what is left will not be found"
                );
                None
            }
        })
        .as_ref()
    }

    fn create() -> io::Result<Self> {
        let host = identity::this_host()
            .ok_or_else(|| io::Error::other("this process cannot be identified"))?;
        let directory = directory::make()?;
        // What earlier hosts left that had nothing to leave.
        shelf::tidy(&directory);
        let title = format::title(host, cgroup::parent().ok());
        // Under its name only once it is locked and whole. Whoever tidies up
        // takes the unlocked file of the moment before for litter: once more.
        let name = format!("{:016x}", host.nonce());
        let file = Self::publish(&directory, &name, &title)
            .or_else(|_| Self::publish(&directory, &name, &title))?;
        Ok(Self {
            file,
            first: title.len() as u64,
            lines: Mutex::default(),
        })
    }

    fn publish(directory: &OwnedFd, name: &str, title: &str) -> io::Result<Flock<File>> {
        let new = format!("{name}.new");
        let flags =
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(
            directory,
            new.as_str(),
            flags,
            Mode::S_IRUSR | Mode::S_IWUSR,
        )?;
        let lock = Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock);
        let mut file = lock.map_err(|(_, errno)| io::Error::from(errno))?;
        file.write_all(title.as_bytes())?;
        let published = format!("{name}.ledger");
        renameat(directory, new.as_str(), directory, published.as_str())?;
        Ok(file)
    }
}
