//! A ledger directory, held open and accessed by descriptor, so that it cannot be replaced. Only
//! this user can write to it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mcp_guardian::{private, state};
use mcp_lifecycle_core::backend::random;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

pub(super) use mcp_guardian::state::Refused;

#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    directory: OwnedFd,
    /// `true` if the path depends on the user ID.
    pub(super) of_user: bool,
}

pub(super) const PRIVATE: Mode = Mode::from_bits_truncate(0o600);

const NAME: &str = "docker";

/// Lists the directories of this user, best first (`docs/containment.md`).
pub(super) fn candidates() -> Vec<PathBuf> {
    let bases = state::candidates().into_iter();
    bases.map(|base| base.join(NAME)).collect()
}

impl Home {
    /// Opens one of the [candidates], or the application's directory. Creates it if missing.
    pub(super) fn make(path: &Path, of_user: bool) -> Result<Self, Refused> {
        if of_user {
            let within = state::make(path.parent().unwrap_or(path))?;
            state::make_in(&within, Path::new(NAME))?;
        } else {
            private::create(path).map_err(Refused::Unusable)?;
        }
        Self::open(path, of_user)
    }

    pub(super) fn open(path: &Path, of_user: bool) -> Result<Self, Refused> {
        let directory = if of_user {
            let within = state::open_own(path.parent().unwrap_or(path))?;
            state::open_own_in(&within, Path::new(NAME))?
        } else {
            let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
            let directory = nix::fcntl::open(path, flags, Mode::empty());
            directory.map_err(|errno| match errno {
                Errno::ENOENT => Refused::Missing,
                errno => Refused::Unusable(errno.into()),
            })?
        };
        // Containers mount files in it by name.
        private::check(path).map_err(Refused::Unusable)?;
        Ok(Self {
            path: path.to_owned(),
            directory,
            of_user,
        })
    }

    /// Creates a new file with this mode, whatever the umask is.
    pub(crate) fn create_new(&self, name: &str, mode: Mode) -> io::Result<File> {
        let flags =
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.directory, name, flags, mode)?;
        fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// Opens a regular file of this user. Follows no link and does not block. Anything else is
    /// [`io::ErrorKind::PermissionDenied`].
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty());
        let file = file.map_err(|errno| match errno {
            Errno::ELOOP => foreign("it is a link"),
            errno => errno.into(),
        })?;
        let stat = fstat(&file)?;
        let others = Mode::S_IWGRP | Mode::S_IWOTH;
        if stat.st_uid != geteuid().as_raw()
            || SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG
            || stat.st_mode & others.bits() != 0
        {
            return Err(foreign("it is not a regular file of this user's alone"));
        }
        Ok(file.into())
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

pub(super) fn problem(refused: Refused) -> io::Error {
    match refused {
        Refused::Missing => io::ErrorKind::NotFound.into(),
        Refused::Foreign(owner) => foreign(&format!("it belongs to user {owner}")),
        Refused::Unusable(error) => error,
    }
}

fn foreign(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}

/// The file with the random name of the directory, generated at its first use.
pub(super) const DOMAIN: &str = "domain";
const LENGTH: usize = 32;

pub(super) fn domain_of(home: &Home) -> io::Result<String> {
    match read_domain(home)? {
        Some(found) => Ok(found),
        None => put_domain(home, &random::id()?),
    }
}

pub(super) fn read_domain(home: &Home) -> io::Result<Option<String>> {
    let file = match home.open_file(DOMAIN) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LENGTH as u64 + 1).read_to_string(&mut text)?;
    if text.len() != LENGTH {
        let path = home.path.join(DOMAIN);
        let problem = format!("{} is damaged; remove it", path.display());
        return Err(io::Error::other(problem));
    }
    Ok(Some(text))
}

/// Makes sure that the directory keeps this name and that the file is recent.
pub(super) fn keep_domain(home: &Home, domain: &str) -> io::Result<()> {
    match home.open_file(DOMAIN) {
        Ok(file) => file.set_modified(SystemTime::now()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => put_domain(home, domain).map(drop),
        Err(error) => Err(error),
    }
}

/// Names the directory, unless another process was first; then returns that name. Atomic.
fn put_domain(home: &Home, domain: &str) -> io::Result<String> {
    let nascent = format!("{DOMAIN}.{}", random::id()?);
    let mut file = home.create_new(&nascent, PRIVATE)?;
    let written = super::write(&mut file, domain.as_bytes());
    let linked = written.and_then(|()| home.link(&nascent, DOMAIN));
    home.remove(&nascent)?;
    match linked {
        Ok(()) => Ok(domain.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            read_domain(home)?.ok_or_else(gone)
        }
        Err(error) => Err(error),
    }
}
