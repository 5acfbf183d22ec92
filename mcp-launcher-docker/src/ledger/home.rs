//! A ledger directory, held open and accessed by descriptor, so that it cannot be replaced. Only
//! this user can write to it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) use mcp_guardian::state::Refused;
use mcp_guardian::{private, state};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
/// Permissions, in this system's type.
pub(super) use nix::libc::mode_t as Permissions;
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

/// A ledger directory of this user.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    directory: OwnedFd,
    /// `true` if the path depends on the user ID.
    of_user: bool,
}

/// Our part of each of the user's state directories.
const NAME: &str = "docker";

/// Lists the directories of this user, best first (`docs/containment.md`).
pub(super) fn candidates() -> Vec<PathBuf> {
    let bases = state::candidates().into_iter();
    bases.map(|base| base.join(NAME)).collect()
}

impl Home {
    /// Opens one of the [candidates], or the application's directory. Creates it if missing.
    pub(super) fn make(path: &Path, of_user: bool) -> Result<Self, Refused> {
        if !of_user {
            private::create(path).map_err(Refused::Unusable)?;
            return Self::open(path, of_user);
        }
        let within = state::make(path.parent().unwrap_or(path))?;
        let directory = state::make_in(&within, Path::new(NAME))?;
        Self::of(path, directory, of_user)
    }

    /// Opens an existing one.
    pub(super) fn open(path: &Path, of_user: bool) -> Result<Self, Refused> {
        if of_user {
            let within = state::open_own(path.parent().unwrap_or(path))?;
            let directory = state::open_own_in(&within, Path::new(NAME))?;
            return Self::of(path, directory, of_user);
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let unusable = |errno: Errno| Refused::Unusable(errno.into());
        let directory = nix::fcntl::open(path, flags, Mode::empty());
        let directory = directory.map_err(|errno| match errno {
            Errno::ENOENT => Refused::Missing,
            errno => unusable(errno),
        })?;
        if !is_own(&fstat(&directory).map_err(unusable)?, SFlag::S_IFDIR) {
            let problem = "it is not a directory of this user's alone";
            return Err(Refused::Unusable(foreign(problem)));
        }
        Self::of(path, directory, of_user)
    }

    fn of(path: &Path, directory: OwnedFd, of_user: bool) -> Result<Self, Refused> {
        if of_user {
            // Containers mount files in it by name.
            private::check_above(path).map_err(Refused::Unusable)?;
        }
        Ok(Self {
            path: path.to_owned(),
            directory,
            of_user,
        })
    }

    /// Creates it again after a removal.
    pub(super) fn again(&self) -> io::Result<Self> {
        Self::make(&self.path, self.of_user).map_err(problem)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether its path still leads to it.
    pub(super) fn is_there(&self) -> io::Result<bool> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) => {
                let own = File::from(self.directory.try_clone()?).metadata()?;
                Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a new file with this mode, whatever the umask is.
    pub(crate) fn create_new(&self, name: &str, mode: Permissions) -> io::Result<File> {
        let flags =
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        let file = openat(&self.directory, name, flags, mode)?;
        fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// Opens a regular file of this user. Follows no link and does not block.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] for anything else.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty());
        let file = file.map_err(|errno| match errno {
            Errno::ELOOP => foreign("it is a link"),
            errno => errno.into(),
        })?;
        if !is_own(&fstat(&file)?, SFlag::S_IFREG) {
            return Err(foreign("it is not a regular file of this user's alone"));
        }
        Ok(file.into())
    }

    /// Returns whether this file has this mode.
    pub(super) fn has_mode(file: &File, mode: Permissions) -> io::Result<bool> {
        let found = Mode::from_bits_truncate(fstat(file)?.st_mode);
        Ok(found == Mode::from_bits_truncate(mode))
    }

    /// Returns whether this file has this name.
    pub(super) fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        let own = fstat(file)?;
        match fstatat(&self.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.directory, from, &self.directory, to)?)
    }

    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let (directory, flags) = (&self.directory, AtFlags::empty());
        Ok(linkat(directory, from, directory, to, flags)?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir)?)
    }

    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let names = state::names(&self.directory)?.into_iter();
        // Our own names are ASCII.
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }
}

/// Turns a refusal into an error.
pub(super) fn problem(refused: Refused) -> io::Error {
    match refused {
        Refused::Missing => io::ErrorKind::NotFound.into(),
        Refused::Foreign(owner) => foreign(&format!("it belongs to user {owner}")),
        Refused::Unusable(error) => error,
    }
}

fn is_own(stat: &FileStat, kind: SFlag) -> bool {
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    stat.st_uid == geteuid().as_raw()
        && SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
        && stat.st_mode & others.bits() == 0
}

fn foreign(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}
