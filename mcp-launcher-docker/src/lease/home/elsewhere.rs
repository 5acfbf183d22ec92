//! A directory of leases, where there are no descriptors of directories.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Permissions, which nobody keeps.
pub(super) type Permissions = u16;

/// The reason a directory is not used.
#[derive(Debug)]
pub(super) enum Refused {
    Missing,
    #[expect(dead_code, reason = "there are no users to tell apart")]
    Foreign(u32),
    Unusable(io::Error),
}

/// A directory in which this user's leases are, or may be.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
}

pub(super) fn candidates() -> Vec<PathBuf> {
    let user = std::env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned());
    let own = format!("mcp-lifecycle-{user}");
    vec![std::env::temp_dir().join(own).join("docker")]
}

impl Home {
    pub(super) fn make(path: &Path) -> Result<Self, Refused> {
        Self::make_at(path).map_err(Refused::Unusable)
    }

    pub(super) fn open(path: &Path) -> Result<Self, Refused> {
        Self::open_at(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Refused::Missing,
            _ => Refused::Unusable(error),
        })
    }

    pub(super) fn again(&self) -> io::Result<Self> {
        Self::make_at(&self.path)
    }

    pub(super) fn make_at(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open_at(path)
    }

    pub(super) fn open_at(path: &Path) -> io::Result<Self> {
        fs::read_dir(path)?;
        let path = path.to_owned();
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_there(&self) -> io::Result<bool> {
        self.path.try_exists()
    }

    pub(crate) fn create_new(&self, name: &str, _: Permissions) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(self.path.join(name))
    }

    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        File::open(self.path.join(name))
    }

    pub(super) fn has_mode(_: &File, _: Permissions) -> io::Result<bool> {
        Ok(true)
    }

    pub(super) fn has(&self, name: &str, _: &File) -> io::Result<bool> {
        self.path.join(name).try_exists()
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        fs::hard_link(self.path.join(from), self.path.join(to))
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.collect())
    }
}
