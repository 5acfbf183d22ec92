//! The place of the cgroups of a host's servers. A recorded path may mean another cgroup, or none, in
//! the process that reads it; an inode number is the same through every mount and in every namespace,
//! and is not reused in one boot.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};

use crate::sys;

/// A cgroup, and the top of the mount through which its path leads there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) root_id: u64,
    /// The number of path components below the top of the mount.
    pub(super) depth: usize,
}

impl Place {
    /// Returns the place of the cgroup at this path.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let (id, device) = identify(path)?.ok_or_else(missing)?;
        let (mut root_id, mut depth) = (id, 0);
        for above in path.ancestors().skip(1) {
            match identify(above) {
                Ok(Some((id, of))) if of == device => (root_id, depth) = (id, depth + 1),
                Err(error) if sys::is_shortage(&error) => return Err(error),
                _ => break,
            }
        }
        let path = path.to_owned();
        Ok(Self {
            id,
            path,
            root_id,
            depth,
        })
    }

    /// Finds the cgroup `name` inside of it; `None` if it is certain that it is gone.
    pub(super) fn find(&self, name: &str) -> Result<Option<PathBuf>, String> {
        let leaf = self.path.join(name);
        if self.is_at(&self.path, self.id)? {
            let found = identify(&leaf).map_err(|error| unseen(&leaf, &error))?;
            return Ok(found.map(|_| leaf));
        }
        // If this is the same mount, it has gone together with its parent.
        let root = self.path.ancestors().nth(self.depth);
        match root.map(|root| self.is_at(root, self.root_id)) {
            Some(Ok(true)) => Ok(None),
            Some(Err(why)) => Err(why),
            _ => Err(format!(
                "the cgroups below {} are not visible here",
                self.path.display()
            )),
        }
    }

    fn is_at(&self, path: &Path, id: u64) -> Result<bool, String> {
        match identify(path) {
            Ok(found) => Ok(found.is_some_and(|(found, _)| found == id)),
            Err(error) => Err(unseen(path, &error)),
        }
    }
}

fn unseen(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be looked at: {error}", path.display())
}

/// Returns the inode number of the cgroup at this path, and the device of its mount; `None` if there
/// is nothing, or no cgroup.
fn identify(path: &Path) -> io::Result<Option<(u64, u64)>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_PATH | OFlag::O_CLOEXEC;
    let directory = match open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if fstatfs(&directory)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
        return Ok(None);
    }
    let stat = fstat(&directory)?;
    Ok(Some((stat.st_ino, stat.st_dev)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns this process's own place, if its cgroup is visible.
    fn own() -> Option<Place> {
        let place = crate::cgroup::parent().ok().map(Place::of);
        if place.is_none() {
            eprintln!("SKIPPED: no cgroup of version 2 is mounted");
        }
        place.transpose().unwrap()
    }

    #[test]
    fn a_missing_cgroup_is_gone() {
        let Some(place) = own() else { return };
        assert_eq!(place.find("mcp-that-never-was"), Ok(None));
        let gone = Place {
            id: u64::MAX,
            path: place.path.join("mcp-gone"),
            depth: place.depth + 1,
            ..place
        };
        assert_eq!(gone.find("mcp-1"), Ok(None), "with its parent");
    }

    #[test]
    fn a_path_elsewhere_proves_nothing() {
        let nowhere = Place {
            id: 1,
            path: "/nowhere/else".into(),
            root_id: 1,
            depth: 1,
        };
        assert!(nowhere.find("mcp-1").is_err(), "nothing there");
        let other = Place {
            path: "/tmp".into(),
            depth: 0,
            ..nowhere
        };
        assert!(other.find("mcp-1").is_err(), "no cgroup");
        let Some(place) = own() else { return };
        let namesake = Place {
            id: u64::MAX,
            root_id: u64::MAX,
            ..place
        };
        assert!(namesake.find("mcp-1").is_err(), "another cgroup");
    }
}
