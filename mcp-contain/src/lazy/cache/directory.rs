//! The directory of the files: this user's, closed to others, and bounded.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;

use super::file;

/// The most of the directory, in files and in bytes.
pub(super) const FILES_MAX: usize = 256;
pub(super) const BYTES_MAX: u64 = 64 << 20;

/// How often the lock is tried for, and how long it is waited for each time.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// The file that who writes has locked.
const LOCK: &str = "lock";

/// A directory of files, each of which is replaced as a whole.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// That of this home directory, made if need be.
    pub(super) fn open(home: &Path) -> io::Result<Self> {
        let ours = |path: &Path, closed: u32| {
            let seen = fs::symlink_metadata(path)?;
            let is_ours =
                seen.is_dir() && seen.uid() == geteuid().as_raw() && seen.mode() & closed == 0;
            is_ours.then_some(()).ok_or_else(denied)
        };
        if !home.is_absolute() || fs::metadata(home)?.uid() != geteuid().as_raw() {
            return Err(denied());
        }
        let parent = home.join(".cache/mcp-contain");
        let path = parent.join("lazy");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        ours(&parent, 0o022)?;
        ours(&path, 0o077)?;
        Ok(Self { path })
    }

    /// A file, which counts as used now.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        let file = self.file(name)?;
        // Whose times cannot be changed can still be read.
        let _ = file.set_modified(SystemTime::now());
        Ok(file)
    }

    /// Replaces a file by what follows from it, and lets nobody else write meanwhile.
    pub(super) fn replace(
        &self,
        name: &str,
        change: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> io::Result<()> {
        let _lock = self.lock()?;
        let mut old = Vec::new();
        if let Ok(file) = self.file(name) {
            file.take(2 * file::BYTES_MAX as u64)
                .read_to_end(&mut old)?;
        }
        self.prune(name)?;
        let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let beside = self.path.join(format!("{name}.{random:016x}"));
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let written = options
            .custom_flags(O_NOFOLLOW)
            .open(&beside)
            .and_then(|mut to| to.write_all(&change(&old)))
            .and_then(|()| fs::rename(&beside, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(self.path.join(name))?;
        let seen = file.metadata()?;
        let is_ours = seen.is_file() && seen.uid() == geteuid().as_raw();
        is_ours.then_some(file).ok_or_else(denied)
    }

    /// The lock, which is not waited for long: who has it may have been stopped.
    fn lock(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(self.path.join(LOCK))?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Makes room for one more file, with the lock: removes what was used longest ago, and what a crash has left beside the files.
    fn prune(&self, spared: &str) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)?.flatten() {
            let name = entry.file_name();
            let Some((stem, rest)) = name.to_str().and_then(|name| name.split_at_checked(64))
            else {
                continue;
            };
            if file::unhex(stem.as_bytes()).is_none() || !entry.file_type()?.is_file() {
                continue;
            }
            if rest.starts_with('.') {
                fs::remove_file(entry.path())?;
            } else if rest.is_empty() && stem != spared {
                let seen = entry.metadata()?;
                files.push((seen.modified()?, seen.len(), entry.path()));
            }
        }
        files.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = file::BYTES_MAX as u64;
        for (number, (_, len, path)) in files.into_iter().enumerate() {
            bytes = bytes.saturating_add(len);
            if number + 1 >= FILES_MAX || bytes > BYTES_MAX {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}
