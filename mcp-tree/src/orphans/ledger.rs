//! The ledger of this host, written as servers start and end.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;

use mcp_lifecycle_core::lock::Lock;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::format::{self, Record};
use super::locked_file::{LedgerFile, Locked, publish};
use super::place::Place;
use super::reap;
use crate::cgroup;
use crate::identity::{self, Cookie, HostId};
use crate::sys;
use crate::sys::watch::Interest;

#[derive(Debug)]
struct Ledger {
    host: &'static HostId,
    title: String,
    book: Lock<Book>,
    watched: OnceLock<Arc<Inotify>>,
}

#[derive(Debug)]
struct Book {
    file: LedgerFile,
    /// Former files that may still have a name: an unlocked one would mean that this host is dead.
    replaced: Vec<Locked>,
    lines: Vec<Option<Record>>,
}

/// The line of one server. It is kept when this is dropped; only [`end`](Self::end) removes it.
#[derive(Debug)]
pub struct Entry {
    ledger: &'static Ledger,
    line: usize,
    record: Record,
}

pub const UNRECORDED: &str = "the server could not be recorded, so it would not be found \
                                     if this host were killed";

/// Records that a server is about to start. `None` where no ledger can be kept: then no later host
/// will end the servers of this one. Fails if no descriptor or memory is available: then the server
/// must not be started.
pub fn register(server: &Cookie, in_cgroup: bool) -> io::Result<Option<Entry>> {
    let Some(ledger) = Ledger::this()? else {
        return Ok(None);
    };
    let record = Record {
        serial: server.serial(),
        in_cgroup,
        ..Record::default()
    };
    let line = {
        let mut book = ledger.book.lock();
        let free = book.lines.iter().position(Option::is_none);
        let line = free.unwrap_or_else(|| {
            book.lines.push(None);
            book.lines.len() - 1
        });
        book.lines[line] = Some(record);
        line
    };
    let entry = Entry {
        ledger,
        line,
        record,
    };
    match ledger.write(line, Some(record)) {
        Err(error) if sys::is_shortage(&error) => {
            entry.end();
            Err(error)
        }
        _ => Ok(Some(entry)),
    }
}

/// Records once that this host has servers without a provable end.
pub fn register_uncontained(server: &Cookie) -> io::Result<()> {
    static REGISTERED: Lock<Option<Entry>> = Lock::new(None);
    let mut registered = REGISTERED.lock();
    let Some(entry) = &*registered else {
        *registered = register(server, false)?;
        return Ok(());
    };
    // The file may have lost its name since.
    match entry.ledger.write(entry.line, Some(entry.record)) {
        Err(error) if sys::is_shortage(&error) => Err(error),
        _ => Ok(()),
    }
}

impl Entry {
    pub fn without_cgroup(&mut self) {
        self.record.in_cgroup = false;
        let _ = self.ledger.write(self.line, Some(self.record));
    }

    pub fn started(&self, pid: u32, start_time: Option<u64>) {
        let process = start_time.map(|start_time| (pid, start_time));
        let record = Record {
            process,
            ..self.record
        };
        let _ = self.ledger.write(self.line, Some(record));
    }

    pub fn end(self) {
        let _ = self.ledger.write(self.line, None);
    }
}

impl Ledger {
    /// Returns the ledger of this process, created on the first call; `None` where none can be kept. A
    /// shortage of descriptors or memory is an error, and the next call tries again. Threads restore
    /// its name, and remove old ledgers.
    fn this() -> io::Result<Option<&'static Self>> {
        static THIS: Lock<Option<Option<&'static Ledger>>> = Lock::new(None);
        let mut known = THIS.lock();
        if let Some(this) = *known {
            return Ok(this);
        }
        let this = match Self::create() {
            Ok(ledger) => Some(&*Box::leak(Box::new(ledger))),
            Err(error) if sys::is_shortage(&error) => return Err(error),
            Err(error) => {
                crate::logged!(
                    warn,
                    %error,
                    "no ledger can be kept: should this host and a guardian be killed \
                     together, what is left will not be found"
                );
                None
            }
        };
        *known = Some(this);
        drop(known);
        if let Some(Err(error)) = this.map(Self::watch) {
            crate::logged!(debug, %error, "a removed ledger is restored only at the next start");
        }
        if let Some(Err(error)) = this.map(Self::tidy) {
            crate::logged!(debug, %error, "old ledgers are not removed");
        }
        Ok(this)
    }

    /// Removes ledgers of earlier hosts of which nothing is left, once, on a thread of its own, because
    /// a process can block a look at it. Nothing depends on the result.
    fn tidy(&'static self) -> io::Result<()> {
        let directory = self.book.lock().file.path.parent().map(Path::to_owned);
        let thread = thread::Builder::new().name("mcp-lifecycle-tidy".to_owned());
        thread.spawn(move || reap::tidy(directory))?;
        Ok(())
    }

    /// Watches for the removal of the name: a host may live for long without another server.
    fn watch(&'static self) -> io::Result<()> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Arc::new(Inotify::init(flags)?);
        watch_name(&inotify, &self.book.lock().file)?;
        let events = Arc::clone(self.watched.get_or_init(|| Arc::clone(&inotify)));
        let watched = sys::watch::readable(inotify, move || {
            while events.read_events().is_ok() {}
            let mut book = self.book.lock();
            if !book.file.is_named()
                && let Err(error) = self.renew(&mut book, None)
            {
                crate::logged!(warn, %error, "the ledger of this host was removed");
            }
            Interest::More
        });
        watched.map(drop)
    }

    fn create() -> io::Result<Self> {
        let host = identity::this_host()?;
        let title = title(host, sys::own_namespace()?, cgroup::parent())?;
        let (file, _) = publish(host, None, &title, &[])?;
        Ok(Self {
            host,
            title,
            book: Lock::new(Book {
                file,
                replaced: Vec::new(),
                lines: Vec::new(),
            }),
            watched: OnceLock::new(),
        })
    }

    /// Writes the line of one server. A failure is logged here.
    fn write(&self, line: usize, record: Option<Record>) -> io::Result<()> {
        let mut book = self.book.lock();
        book.lines[line] = record;
        let result = match book.file.is_named() {
            false => self.renew(&mut book, None),
            true => book.file.write(line, record).or_else(|error| {
                crate::logged!(warn, %error, "the ledger of this host cannot be written: another directory is tried");
                let full = book.file.path.clone();
                self.renew(&mut book, Some(&full))
            }),
        };
        result.inspect_err(|error| {
            crate::logged!(
                warn,
                %error,
                "the ledger of this host cannot be written: its servers may not be found when \
                 it is killed"
            );
        })
    }

    /// Publishes the ledger again, at most three times, until it has a name that is watched.
    fn renew(&self, book: &mut Book, full: Option<&Path>) -> io::Result<()> {
        let except = full.and_then(Path::parent);
        for _ in 0..3 {
            let (file, _) = publish(self.host, except, &self.title, &book.lines)?;
            let replaced = std::mem::replace(&mut book.file, file);
            // A file without a name never gets one again.
            if replaced.locked.metadata()?.nlink() > 0 {
                book.replaced.push(replaced.locked);
            }
            let watched = self.watched.get().map(|it| watch_name(it, &book.file));
            if book.file.is_named() {
                if let Some(Err(error)) = watched {
                    crate::logged!(debug, %error, "a removed ledger is restored only at the next start");
                }
                break;
            }
        }
        Ok(())
    }
}

fn watch_name(inotify: &Inotify, file: &LedgerFile) -> io::Result<()> {
    let what = AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF;
    Ok(inotify.add_watch(&file.path, what).map(drop)?)
}

/// Returns the first line of a ledger of this process, in this PID namespace and with the servers'
/// cgroups below `parent`.
pub(super) fn title(
    host: &HostId,
    namespace: u64,
    parent: io::Result<&Path>,
) -> io::Result<String> {
    let place = match parent.and_then(Place::of) {
        Err(error) if sys::is_shortage(&error) => return Err(error),
        place => place.ok(),
    };
    Ok(format::title(host, namespace, place.as_ref()))
}
