//! A directory of leases, held open: what is done in it is done by descriptor, so
//! that nothing can be put in its place. Nobody but this user can write to it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) use mcp_lifecycle_host::state::Refused;
use mcp_lifecycle_host::{private, state};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
/// Permissions, in the type that this system has for them.
pub(super) use nix::libc::mode_t as Permissions;
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

/// A directory in which this user's leases are, or may be.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    directory: OwnedFd,
    /// True where the path is derived from the user's number.
    of_user: bool,
}

/// The part of each of the user's state directories that is ours.
const NAME: &str = "docker";

/// The directories of this user, best first (`docs/orphans.md`).
pub(super) fn candidates() -> Vec<PathBuf> {
    let bases = state::candidates().into_iter();
    bases.map(|base| base.join(NAME)).collect()
}

impl Home {
    /// Opens one of the [candidates], or makes it.
    pub(super) fn make(path: &Path) -> Result<Self, Refused> {
        let base = path.parent().unwrap_or(path);
        let within = state::make(base)?;
        let directory = state::make_in(&within, Path::new(NAME))?;
        Self::of_candidate(path, directory)
    }

    /// Opens one of the [candidates].
    pub(super) fn open(path: &Path) -> Result<Self, Refused> {
        let base = path.parent().unwrap_or(path);
        let within = state::open_own(base)?;
        let directory = state::open_own_in(&within, Path::new(NAME))?;
        Self::of_candidate(path, directory)
    }

    fn of_candidate(path: &Path, directory: OwnedFd) -> Result<Self, Refused> {
        // Containers have files of it mounted, by name.
        private::check_above(path).map_err(Refused::Unusable)?;
        Ok(Self {
            path: path.to_owned(),
            directory,
            of_user: true,
        })
    }

    /// Makes it again where somebody has removed it.
    pub(super) fn again(&self) -> io::Result<Self> {
        if !self.of_user {
            return Self::make_at(&self.path);
        }
        Self::make(&self.path).map_err(|refused| match refused {
            Refused::Missing => io::ErrorKind::NotFound.into(),
            Refused::Foreign(_) => foreign("it is another user's"),
            Refused::Unusable(error) => error,
        })
    }

    /// Opens the directory that the application names, or makes it.
    pub(super) fn make_at(path: &Path) -> io::Result<Self> {
        private::create(path)?;
        Self::open_at(path)
    }

    /// Opens the directory that the application names.
    pub(super) fn open_at(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let directory = nix::fcntl::open(path, flags, Mode::empty())?;
        if !is_own(&fstat(&directory)?, SFlag::S_IFDIR) {
            return Err(foreign("it is not a directory of this user's alone"));
        }
        Ok(Self {
            path: path.to_owned(),
            directory,
            of_user: false,
        })
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

    /// A file that was not there, with this mode whatever the umask is.
    pub(crate) fn create_new(&self, name: &str, mode: Permissions) -> io::Result<File> {
        let flags =
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        let file = openat(&self.directory, name, flags, mode)?;
        fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// Opens a regular file of this user's. Follows no link, and waits for nobody.
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
        // Ours are ASCII.
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
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
