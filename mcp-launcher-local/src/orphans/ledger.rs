//! The ledger of this host.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory::{self, Refused};
use super::format::{self, Record};
use super::lock::Locked;
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
}

#[derive(Debug)]
struct Book {
    page: Page,
    /// Files that may have a name somewhere. A lock that was let go would say
    /// that this host is dead.
    replaced: Vec<Locked>,
    lines: Vec<Option<Record>>,
}

/// The open file. The lock is what says that this host lives; it is let go by
/// the kernel, when the process ends, however it ends.
#[derive(Debug)]
struct Page {
    path: PathBuf,
    file: Locked,
}

/// The line of one server. It stays, unless the server is said to have ended.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: &'static Ledger,
    line: usize,
    record: Record,
}

/// Writes down that a server is about to start. `None` where no ledger can be
/// kept: then nobody will be able to prove that this host is dead, and nobody
/// will touch its servers.
pub(crate) fn register(server: &Cookie, in_cgroup: bool) -> Option<Entry> {
    let ledger = Ledger::this()?;
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
    ledger.write(line, Some(record));
    Some(entry)
}

/// Writes down, once and for good, that this host has servers of which an end
/// cannot be proven: what has left the process group may outlive it.
pub(crate) fn register_uncontained(server: &Cookie) {
    static REGISTERED: OnceLock<Option<Entry>> = OnceLock::new();
    if let Some(entry) = REGISTERED.get_or_init(|| register(server, false)) {
        // It may have lost its name since.
        entry.ledger.write(entry.line, Some(entry.record));
    }
}

impl Entry {
    /// The server has no cgroup of its own after all.
    pub(crate) fn without_cgroup(&mut self) {
        self.record.in_cgroup = false;
        self.ledger.write(self.line, Some(self.record));
    }

    /// The server runs.
    pub(crate) fn started(&self, pid: u32, start_time: Option<u64>) {
        let process = start_time.map(|start_time| (pid, start_time));
        let record = Record {
            process,
            ..self.record
        };
        self.ledger.write(self.line, Some(record));
    }

    /// Nothing is left of the server.
    pub(crate) fn end(self) {
        self.ledger.write(self.line, None);
    }
}

impl Ledger {
    /// Of this process, made when it is first asked for.
    fn this() -> Option<&'static Self> {
        static THIS: OnceLock<Option<Ledger>> = OnceLock::new();
        let mut is_new = false;
        let this = THIS.get_or_init(|| match Self::create() {
            Ok(ledger) => {
                is_new = true;
                Some(ledger)
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "no ledger can be kept: should this host and a guardian be killed together, \
                     what is left will not be found"
                );
                None
            }
        });
        let this = this.as_ref()?;
        if is_new && let Err(error) = this.watch() {
            tracing::debug!(%error, "a ledger that is removed comes back with the next server");
        }
        Some(this)
    }

    /// Has the kernel say when the name is removed: a host may live for long
    /// without another server.
    fn watch(&'static self) -> io::Result<()> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Arc::new(Inotify::init(flags)?);
        let watch = |inotify: &Inotify, path: &Path| {
            let what = AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF;
            inotify.add_watch(path, what)
        };
        watch(&inotify, &self.lock().page.path)?;
        let events = Arc::clone(&inotify);
        let watched = sys::watch::readable(inotify, move || {
            while events.read_events().is_ok() {}
            let mut book = self.lock();
            if book.page.is_named() {
                return Interest::More;
            }
            let renewed = self.renew(&mut book, None);
            match renewed.and_then(|()| Ok(watch(&events, &book.page.path)?)) {
                Ok(_) => Interest::More,
                Err(error) => {
                    tracing::warn!(%error, "the ledger of this host was removed");
                    Interest::Done
                }
            }
        });
        watched.map(drop)
    }

    fn create() -> io::Result<Self> {
        let host = identity::this_host()
            .ok_or_else(|| io::Error::other("this process cannot be identified"))?;
        let sight = Sight::look()?;
        let place = cgroup::parent().ok().and_then(|path| Place::of(path).ok());
        let title = format::title(host, sight.namespace, place.as_ref());
        let page = publish(host, &sight, None, title.as_bytes())?;
        Ok(Self {
            host,
            title,
            sight,
            book: Mutex::new(Book {
                page,
                replaced: Vec::new(),
                lines: Vec::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line: a few bytes, which are there or are not.
    fn write(&self, line: usize, record: Option<Record>) {
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
                    tracing::warn!(%error, "the ledger of this host cannot be written: it moves");
                    let full = book.page.path.clone();
                    self.renew(&mut book, Some(&full))
                }),
        };
        if let Err(error) = result {
            tracing::warn!(
                %error,
                "the ledger of this host cannot be written: its servers may not be found when it \
                 is killed"
            );
        }
    }

    /// Puts the ledger where others can find it, once more: the name was
    /// removed, by somebody who cleans up or with the directory, or no more can
    /// be written there.
    fn renew(&self, book: &mut Book, full: Option<&Path>) -> io::Result<()> {
        let mut text = self.title.clone().into_bytes();
        for record in &book.lines {
            text.extend(record.map_or_else(format::blank, format::line));
        }
        let page = publish(self.host, &self.sight, full.and_then(Path::parent), &text)?;
        let replaced = std::mem::replace(&mut book.page, page);
        // What has no name any more gets none again.
        if replaced.file.metadata()?.nlink() > 0 {
            book.replaced.push(replaced.file);
        }
        Ok(())
    }
}

impl Page {
    /// Whether whoever looks for it finds this file.
    fn is_named(&self) -> bool {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(found), Ok(own)) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
            _ => false,
        }
    }
}

/// Makes the file, in the first directory that will have it.
fn publish(host: &HostId, sight: &Sight, except: Option<&Path>, text: &[u8]) -> io::Result<Page> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for path in directory::candidates() {
        if Some(path.as_path()) == except {
            continue;
        }
        let error = match directory::make(&path) {
            Ok(directory) => {
                // What earlier hosts left that had nothing to leave.
                shelf::tidy(&directory, sight);
                let name = format!("{:016x}", host.nonce());
                match publish_in(&directory, &name, text) {
                    Ok(file) => {
                        let path = path.join(format!("{name}.ledger"));
                        return Ok(Page { path, file });
                    }
                    Err(error) => error,
                }
            }
            Err(Refused::Missing) => continue,
            Err(Refused::Foreign(owner)) => {
                io::Error::other(format!("it was made by another user ({owner})"))
            }
            Err(Refused::Unusable(error)) => error,
        };
        tracing::warn!(
            ?path,
            %error,
            "no ledger can be kept in this directory; the next one is tried"
        );
        last = error;
    }
    Err(last)
}

/// Under its name only once it is locked and whole.
fn publish_in(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<Locked> {
    // Whoever tidies up takes the unlocked file of the moment before for litter,
    // or has it locked for a moment: once more.
    let mut attempts = 0;
    loop {
        match try_publish(directory, name, text) {
            Err(_) if attempts < 2 => attempts += 1,
            result => return result,
        }
    }
}

fn try_publish(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<Locked> {
    let new = format!("{name}.new");
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_NOFOLLOW;
    let open = |flags| {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        openat(directory, new.as_str(), flags | OFlag::O_CLOEXEC, mode).map(File::from)
    };
    let publish = || -> io::Result<Locked> {
        let mut file = Locked::alone(open(flags)?)?;
        match Locked::alone(open(OFlag::O_RDWR | OFlag::O_NOFOLLOW)?) {
            Err(TryLockError::WouldBlock) => {}
            _ => return Err(io::Error::other("locks do nothing on its file system")),
        }
        file.write_all(text)?;
        let published = format!("{name}.ledger");
        renameat(directory, new.as_str(), directory, published.as_str())?;
        Ok(file)
    };
    publish().inspect_err(|_| {
        let _ = unlinkat(directory, new.as_str(), UnlinkatFlags::NoRemoveDir);
    })
}
