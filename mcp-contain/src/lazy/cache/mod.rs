//! Cached answers of servers: one file for each, in a directory that is private to this user and
//! bounded. A failure, as of a full disk, only costs cache entries.

pub(super) mod key;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;

use super::decision::events::Key;

const FILES_MAX: usize = 1024;
const BYTES_MAX: u64 = 64 << 20;

const ANSWER_MAX: usize = 1 << 20;

/// The answers of one specification. Each look-up reads a file.
#[derive(Debug)]
pub(super) struct Cache {
    directory: Option<PathBuf>,
    specification: Key,
}

impl Cache {
    /// Opens the cache of a specification. It is always empty if that fails.
    pub(super) fn open(home: Option<&Path>, specification: Key) -> Self {
        Self {
            directory: home.and_then(|home| directory(home).ok()),
            specification,
        }
    }

    /// Returns a cached answer, and marks it as used now.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        read(&self.file(key)?).ok()
    }

    pub(super) fn store(&self, key: &Key, answer: &[u8]) {
        if answer.len() > ANSWER_MAX {
            self.forget(key);
        } else if self.get(key).is_none_or(|known| known != answer)
            && let Some(file) = self.file(key)
        {
            let _ = replace(&file, answer);
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        if let Some(file) = self.file(key) {
            let _ = fs::remove_file(file);
        }
    }

    fn file(&self, key: &Key) -> Option<PathBuf> {
        let name = key::digest(&[self.specification, *key].concat());
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.directory.as_ref()?.join(name))
    }
}

/// Opens or creates the directory of this home, if only this user can change it.
fn directory(home: &Path) -> io::Result<PathBuf> {
    let own = |path: &Path, closed: u32| {
        let seen = fs::symlink_metadata(path)?;
        let is_own = seen.is_dir() && seen.uid() == geteuid().as_raw() && seen.mode() & closed == 0;
        is_own.then_some(()).ok_or_else(denied)
    };
    if !home.is_absolute() || fs::metadata(home)?.uid() != geteuid().as_raw() {
        return Err(denied());
    }
    let parent = home.join(".cache/mcp-contain");
    let path = parent.join("lazy");
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&path)?;
    own(&parent, 0o022)?;
    own(&path, 0o077)?;
    Ok(path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK);
    let file = options.open(path)?;
    let seen = file.metadata()?;
    if !seen.is_file() || seen.uid() != geteuid().as_raw() || seen.len() > ANSWER_MAX as u64 {
        return Err(denied());
    }
    // A file may be readable without permission to change its time.
    let _ = file.set_modified(SystemTime::now());
    let mut text = Vec::new();
    file.take(ANSWER_MAX as u64).read_to_end(&mut text)?;
    Ok(text)
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    prune(directory)?;
    let mut prefix = OsString::from(path.file_name().unwrap_or_default());
    prefix.push(".");
    let mut new = tempfile::Builder::new()
        .prefix(&prefix)
        .tempfile_in(directory)?;
    // The file's own error has the number that is looked for.
    mcp_guardian::file_size::shielded(|| new.as_file_mut().write_all(text))?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// Makes room for one more answer: removes the least recently used files, to which those belong
/// that a crash left.
fn prune(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        let path = entry.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let is_own = |stem: &str| stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit());
        let seen = entry.metadata().ok().filter(fs::Metadata::is_file);
        if let Some(seen) = seen.filter(|_| stem.is_some_and(is_own)) {
            files.push((seen.modified()?, seen.len(), path));
        }
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    let mut bytes = ANSWER_MAX as u64;
    for (number, (_, len, path)) in files.into_iter().enumerate() {
        bytes = bytes.saturating_add(len);
        if number + 1 >= FILES_MAX || bytes > BYTES_MAX {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}
