//! The ledger of this host.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::directory;
use super::format::{self, Record};
use super::lock::Locked;
use super::page::{Page, publish};
use super::place::Place;
use super::shelf;
use super::sight::Sight;
use crate::cgroup;
use crate::identity::{self, Cookie, HostId};
use crate::sys;
use crate::sys::watch::Interest;

/// The ledger, as it is to be. Its file may have to be made anew.
#[derive(Debug)]
struct Ledger {
    host: &'static HostId,
    title: String,
    sight: Sight,
    book: Mutex<Book>,
    /// What the kernel says of the names of its files.
    watched: OnceLock<Arc<Inotify>>,
}

#[derive(Debug)]
struct Book {
    page: Page,
    /// Files that may have a name somewhere. A lock that was let go would say
    /// that this host is dead.
    replaced: Vec<Locked>,
    lines: Vec<Option<Record>>,
}

/// The line of one server. It stays, unless the server is said to have ended.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: &'static Ledger,
    line: usize,
    record: Record,
}

/// Said of a launch that could not be written down.
pub(crate) const UNRECORDED: &str = "the server could not be written down, and nobody would find \
                                     it when this host is killed";

/// Writes down that a server is about to start. `None` where no ledger can be
/// kept: then nobody will be able to prove that this host is dead, and nobody
/// will touch its servers.
///
/// # Errors
///
/// There is no descriptor or no memory to do so: the server is not to be started.
pub(crate) fn register(server: &Cookie, in_cgroup: bool) -> io::Result<Option<Entry>> {
    let Some(ledger) = Ledger::this()? else {
        return Ok(None);
    };
    let record = Record {
        serial: server.serial(),
        process: None,
        in_cgroup,
    };
    let line = {
        let mut book = ledger.lock();
        let free = book.lines.iter().position(Option::is_none);
        let line = free.unwrap_or_else(|| {
            book.lines.push(None);
            book.lines.len() - 1
        });
        // Taken, before anybody else looks for one.
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

/// Writes down, once and for good, that this host has servers of which an end
/// cannot be proven: what has left the process group may outlive it.
///
/// # Errors
///
/// As [`register`].
pub(crate) fn register_uncontained(server: &Cookie) -> io::Result<()> {
    static REGISTERED: Mutex<Option<Entry>> = Mutex::new(None);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = &*registered else {
        *registered = register(server, false)?;
        return Ok(());
    };
    // It may have lost its name since.
    match entry.ledger.write(entry.line, Some(entry.record)) {
        Err(error) if sys::is_shortage(&error) => Err(error),
        _ => Ok(()),
    }
}

impl Entry {
    /// The server has no cgroup of its own after all.
    pub(crate) fn without_cgroup(&mut self) {
        self.record.in_cgroup = false;
        let _ = self.ledger.write(self.line, Some(self.record));
    }

    /// The server runs.
    pub(crate) fn started(&self, pid: u32, start_time: Option<u64>) {
        let process = start_time.map(|start_time| (pid, start_time));
        let record = Record {
            process,
            ..self.record
        };
        let _ = self.ledger.write(self.line, Some(record));
    }

    /// Nothing is left of the server.
    pub(crate) fn end(self) {
        let _ = self.ledger.write(self.line, None);
    }
}

impl Ledger {
    /// Of this process, made when it is first asked for; `None` where there can
    /// be none.
    ///
    /// # Errors
    ///
    /// There is no descriptor or no memory for it, which is no answer that is kept.
    fn this() -> io::Result<Option<&'static Self>> {
        static THIS: OnceLock<Option<Ledger>> = OnceLock::new();
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(this) = THIS.get() {
            return Ok(this.as_ref());
        }
        let one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(this) = THIS.get() {
            return Ok(this.as_ref());
        }
        let made = match Self::create() {
            Ok(ledger) => Some(ledger),
            Err(error) if sys::is_shortage(&error) => return Err(error),
            Err(error) => {
                sys::shielded(|| {
                    tracing::warn!(
                        %error,
                        "no ledger can be kept: should this host and a guardian be killed \
                         together, what is left will not be found"
                    );
                });
                None
            }
        };
        let this = THIS.get_or_init(|| made).as_ref();
        drop(one);
        if let Some(Err(error)) = this.map(Self::watch) {
            sys::shielded(|| {
                tracing::debug!(%error, "a ledger that is removed comes back with the next server");
            });
        }
        if let Some(Err(error)) = this.map(Self::tidy) {
            sys::shielded(|| tracing::debug!(%error, "ledgers are not tidied away"));
        }
        Ok(this)
    }

    /// Removes what earlier hosts left that had nothing to leave.
    ///
    /// Once, when others can find this ledger, and on a thread of its own: who looks at
    /// processes waits for as long as one of them likes. Nothing depends on it.
    fn tidy(&'static self) -> io::Result<()> {
        let directory = self.lock().page.path.parent().map(Path::to_owned);
        let Some(Ok(directory)) = directory.map(|path| directory::open_own(&path)) else {
            return Ok(());
        };
        let thread = thread::Builder::new().name("mcp-lifecycle-tidy".to_owned());
        thread.spawn(move || shelf::tidy(&directory, &self.sight))?;
        Ok(())
    }

    /// Has the kernel say when the name is removed: a host may live for long
    /// without another server.
    fn watch(&'static self) -> io::Result<()> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Arc::new(Inotify::init(flags)?);
        watch_name(&inotify, &self.lock().page)?;
        let events = Arc::clone(self.watched.get_or_init(|| Arc::clone(&inotify)));
        let watched = sys::watch::readable(inotify, move || {
            while events.read_events().is_ok() {}
            let mut book = self.lock();
            if !book.page.is_named()
                && let Err(error) = self.renew(&mut book, None)
            {
                sys::shielded(|| tracing::warn!(%error, "the ledger of this host was removed"));
            }
            Interest::More
        });
        watched.map(drop)
    }

    fn create() -> io::Result<Self> {
        let host = identity::this_host()?;
        let sight = Sight::look()?;
        let title = title(host, sight.namespace, cgroup::parent())?;
        let page = publish(host, None, title.as_bytes())?;
        Ok(Self {
            host,
            title,
            sight,
            book: Mutex::new(Book {
                page,
                replaced: Vec::new(),
                lines: Vec::new(),
            }),
            watched: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line: a few bytes, which are there or are not.
    ///
    /// # Errors
    ///
    /// They are not, which is said here.
    fn write(&self, line: usize, record: Option<Record>) -> io::Result<()> {
        let mut book = self.lock();
        book.lines[line] = record;
        let bytes = record.map_or_else(format::blank, format::line);
        let at = self.title.len() + line * format::LINE;
        let result = match book.page.is_named() {
            false => self.renew(&mut book, None),
            true => book
                .page
                .file
                .write_all_at(&bytes, at as u64)
                .or_else(|error| {
                    sys::shielded(|| {
                        tracing::warn!(%error, "the ledger of this host cannot be written: it moves");
                    });
                    let full = book.page.path.clone();
                    self.renew(&mut book, Some(&full))
                }),
        };
        result.inspect_err(|error| {
            sys::shielded(|| {
                tracing::warn!(
                    %error,
                    "the ledger of this host cannot be written: its servers may not be found when \
                     it is killed"
                );
            });
        })
    }

    /// Puts the ledger where others can find it, once more: the name was
    /// removed, by somebody who cleans up or with the directory, or no more can
    /// be written there.
    fn renew(&self, book: &mut Book, full: Option<&Path>) -> io::Result<()> {
        let mut text = self.title.clone().into_bytes();
        for record in &book.lines {
            text.extend(record.map_or_else(format::blank, format::line));
        }
        let page = publish(self.host, full.and_then(Path::parent), &text)?;
        let replaced = std::mem::replace(&mut book.page, page);
        // What has no name any more gets none again.
        if replaced.file.metadata()?.nlink() > 0 {
            book.replaced.push(replaced.file);
        }
        if let Some(Err(error)) = self.watched.get().map(|it| watch_name(it, &book.page)) {
            sys::shielded(|| {
                tracing::debug!(%error, "a ledger that is removed comes back with the next server");
            });
        }
        Ok(())
    }
}

/// Has the kernel say when the name of a page changes.
fn watch_name(inotify: &Inotify, page: &Page) -> io::Result<()> {
    let what = AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF;
    Ok(inotify.add_watch(&page.path, what).map(drop)?)
}

/// The first line of a ledger of this process, which is in this PID namespace, and has the cgroups of its servers below `parent`.
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
