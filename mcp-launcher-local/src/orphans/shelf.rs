//! The ledgers of other hosts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory;
use super::format::{self, Contents, MAX, Record};
use crate::cgroup;
use crate::sys;

/// What a file with the name of a ledger turned out to be.
#[derive(Debug)]
pub(super) enum Found {
    /// Its host lives, as far as anybody can tell.
    Living(Option<Contents>),
    /// Its host is dead, and as long as this is held nobody else acts on it.
    Dead(Dead),
    /// Not a ledger, or not of this user's.
    Unusable,
}

/// The ledger of a dead host of this boot.
#[derive(Debug)]
pub(super) struct Dead {
    pub(super) contents: Contents,
    _lock: Flock<File>,
}

/// Opens what is called `name` and finds out about its owner.
pub(super) fn look(directory: &OwnedFd, name: &OsStr) -> io::Result<Found> {
    // A fifo must not make us wait for its other end, a link must not lead
    // elsewhere.
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Err(io::ErrorKind::NotFound.into()),
        Err(_) => return Ok(Found::Unusable),
    };
    if !directory::is_own(&fstat(&file)?, SFlag::S_IFREG) {
        return Ok(Found::Unusable);
    }
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Err((file, Errno::EWOULDBLOCK)) => Ok(Found::Living(read(&file)?)),
        Err((_, errno)) => Err(errno.into()),
        Ok(lock) => Ok(match read(&lock)? {
            Some(contents) if is_alive(&contents) => Found::Living(Some(contents)),
            Some(contents) => Found::Dead(Dead {
                contents,
                _lock: lock,
            }),
            None => Found::Unusable,
        }),
    }
}

/// Whether there is still a process that says it is this host: a file system on
/// which locks do nothing must not make a living host look dead.
fn is_alive(contents: &Contents) -> bool {
    let host = &contents.host;
    sys::boot_id().as_deref() == Some(host.boot_id())
        && sys::start_time_of(host.pid()) == Some(host.start_time())
}

fn read(file: &File) -> io::Result<Option<Contents>> {
    let mut bytes = Vec::new();
    file.take(MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(format::parse(&bytes))
}

/// Whether a ledger had no name yet. One that nobody has locked never gets one:
/// its host died, or will notice and begin again.
pub(super) fn is_new(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".new")
}

pub(super) fn remove(directory: &OwnedFd, name: &OsStr) {
    if let Err(error) = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        tracing::debug!(%error, "the ledger of a dead host cannot be removed");
    }
}

/// Removes ledgers of dead hosts of which nothing is left, and what a
/// host left that died before its ledger had a name. Best effort.
pub(super) fn tidy(directory: &OwnedFd) {
    for name in directory::names(directory).unwrap_or_default() {
        let is_new = is_new(&name);
        let litter = match look(directory, &name) {
            Ok(Found::Dead(dead)) => is_new || dead.contents.is_settled(),
            Ok(Found::Unusable) => is_new,
            Ok(Found::Living(_)) | Err(_) => false,
        };
        if litter {
            remove(directory, &name);
        }
    }
}

impl Contents {
    /// Whether nothing of it can be left. Empty cgroups, which guardians leave
    /// when their host is killed, are removed on the way: a cgroup that can be
    /// removed has nobody inside.
    fn is_settled(&self) -> bool {
        let is_removed = |server: &Record| {
            let parent = self.cgroups.as_ref().filter(|_| server.in_cgroup);
            parent.is_some_and(|parent| {
                let leaf = parent.join(cgroup::name(&self.cookie(*server)));
                match fs::remove_dir(leaf) {
                    Ok(()) => true,
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                }
            })
        };
        // All of them, also after one that cannot be.
        let left = self.servers.iter().filter(|server| !is_removed(server));
        left.count() == 0 && self.unreadable == 0
    }
}
