//! Files with a lock: exclusive = the owner is alive, shared = being inspected.
//!
//! A ledger is locked and complete before it gets its name.

use std::borrow::Borrow;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::file_size;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory::{self, Refused};
use super::format::{self, Record};
use crate::identity::HostId;
use crate::sys;

/// A locked file, or a reference to one.
///
/// # Drop
///
/// Unlocks it, also if a forked child of the host has a copy of the descriptor.
#[derive(Debug)]
pub(super) struct Locked<F: Borrow<File> = File>(F);

impl<F: Borrow<File>> Locked<F> {
    pub(super) fn exclusive(file: F) -> Result<Self, TryLockError> {
        uninterrupted(|| file.borrow().try_lock())?;
        Ok(Self(file))
    }

    pub(super) fn shared(file: F) -> Result<Self, TryLockError> {
        uninterrupted(|| file.borrow().try_lock_shared())?;
        Ok(Self(file))
    }
}

impl<F: Borrow<File>> Drop for Locked<F> {
    fn drop(&mut self) {
        let _ = self.0.borrow().unlock();
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

fn uninterrupted(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    loop {
        match lock() {
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

/// The published file of a ledger. The kernel releases its lock when this host ends.
#[derive(Debug)]
pub(super) struct LedgerFile {
    pub(super) path: PathBuf,
    pub(super) locked: Locked,
    /// The length of its first line.
    title: usize,
}

impl LedgerFile {
    /// Writes the line of one server, a few bytes, completely or not at all.
    pub(super) fn write(&self, line: usize, record: Option<Record>) -> io::Result<()> {
        let at = self.title + line * format::LINE;
        let bytes = format::line(record);
        file_size::shielded(|| self.locked.write_all_at(&bytes, at as u64))
    }

    /// Returns whether its name still refers to this file.
    pub(super) fn is_named(&self) -> bool {
        match (fs::symlink_metadata(&self.path), self.locked.metadata()) {
            (Ok(found), Ok(own)) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
            _ => false,
        }
    }
}

/// Creates a ledger with this first line and these servers in the first usable directory, and returns
/// that too.
pub(super) fn publish(
    host: &HostId,
    except: Option<&Path>,
    title: &str,
    servers: &[Option<Record>],
) -> io::Result<(LedgerFile, OwnedFd)> {
    let mut text = title.as_bytes().to_vec();
    text.extend(servers.iter().flat_map(|record| format::line(*record)));
    let text = text.as_slice();
    let name = format!("{:016x}", host.nonce());
    let mut last = io::Error::other("there is no directory for it");
    for path in directory::candidates() {
        if Some(path.as_path()) == except {
            continue;
        }
        let published = match directory::make(&path) {
            // Another host that tidies up may remove the file before it is locked, or lock it.
            Ok(directory) => publish_in(&directory, &name, text)
                .or_else(|_| publish_in(&directory, &name, text))
                .or_else(|_| publish_in(&directory, &name, text))
                .map(|locked| (locked, directory)),
            Err(Refused::Missing) => continue,
            Err(Refused::Foreign(owner)) => Err(io::Error::other(format!(
                "it belongs to another user ({owner})"
            ))),
            Err(Refused::Unusable(error)) => Err(error),
        };
        match published {
            Ok((locked, directory)) => {
                let path = path.join(format!("{name}.ledger"));
                let title = title.len();
                let file = LedgerFile {
                    path,
                    locked,
                    title,
                };
                return Ok((file, directory));
            }
            Err(error) if sys::is_shortage(&error) => return Err(error),
            Err(error) => last = io::Error::other(format!("{}: {error}", path.display())),
        }
        crate::logged!(
            warn,
            ?path,
            error = %last,
            "no ledger can be kept in this directory; the next one is tried"
        );
    }
    Err(last)
}

/// Creates the file and renames it once it is locked and complete.
fn publish_in(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<Locked> {
    let new = format!("{name}.new");
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_NOFOLLOW;
    let open = |flags| {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        openat(directory, new.as_str(), flags | OFlag::O_CLOEXEC, mode).map(File::from)
    };
    let publish = || -> io::Result<Locked> {
        let file = Locked::exclusive(open(flags)?)?;
        match Locked::exclusive(open(OFlag::O_RDWR | OFlag::O_NOFOLLOW)?) {
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if sys::is_shortage(&error) => return Err(error),
            _ => {
                return Err(io::Error::other(
                    "file locks have no effect on its file system",
                ));
            }
        }
        file_size::shielded(|| (&*file).write_all(text))?;
        let published = format!("{name}.ledger");
        renameat(directory, new.as_str(), directory, published.as_str())?;
        Ok(file)
    };
    publish().inspect_err(|_| {
        let _ = unlinkat(directory, new.as_str(), UnlinkatFlags::NoRemoveDir);
    })
}
