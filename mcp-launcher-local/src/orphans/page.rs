//! The file of a ledger, which is locked and whole before it has its name.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory::{self, Refused};
use super::lock::Locked;
use crate::identity::HostId;
use crate::sys;

/// The open file. The lock is what says that this host lives; it is let go by
/// the kernel, when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) file: Locked,
}

impl Page {
    /// Returns whether whoever looks for it finds this file.
    pub(super) fn is_named(&self) -> bool {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(found), Ok(own)) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
            _ => false,
        }
    }
}

/// Makes the file, in the first directory that will have it.
pub(super) fn publish(host: &HostId, except: Option<&Path>, text: &[u8]) -> io::Result<Page> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for path in directory::candidates() {
        if Some(path.as_path()) == except {
            continue;
        }
        let error = match directory::make(&path) {
            Ok(directory) => {
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
        if sys::is_shortage(&error) {
            return Err(error);
        }
        sys::shielded(|| {
            tracing::warn!(
                ?path,
                %error,
                "no ledger can be kept in this directory; the next one is tried"
            );
        });
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
            Err(TryLockError::Error(error)) if sys::is_shortage(&error) => return Err(error),
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
