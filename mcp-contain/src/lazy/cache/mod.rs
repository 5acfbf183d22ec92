//! Answers that a server has given before: one file for each specification by value.
//!
//! - [`key`]: what an answer depends on
//! - [`directory`]: where the files are, and how many
//! - [`mod@file`]: the text of one
//! - [`Cache`]: the answers of one specification

mod directory;
mod file;
pub(super) mod key;

#[cfg(test)]
mod tests;

use std::path::Path;

use directory::Directory;

use super::decision::words::Key;

/// The longest answer that is kept.
const ANSWER_MAX: usize = 1 << 20;

/// The answers of one specification. Each look reads the file, so that nothing is kept
/// in memory and what other processes have learnt is seen.
#[derive(Debug)]
pub(super) struct Cache {
    directory: Option<Directory>,
    name: String,
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) is_error: bool,
    /// The text of the result, or of the error.
    pub(super) answer: Vec<u8>,
}

impl Cache {
    /// The cache of a specification, below this home directory. Where there can be none, nothing is ever found.
    pub(super) fn open(home: Option<&Path>, specification: &Key) -> Self {
        Self {
            directory: home.and_then(|home| Directory::open(home).ok()),
            name: file::hex(specification),
        }
    }

    /// An answer, if there is one.
    pub(super) fn get(&self, key: &Key) -> Option<Entry> {
        let file = self.directory.as_ref()?.read(&self.name).ok()?;
        file::find(file, key).ok().flatten()
    }

    /// Keeps an answer. What cannot be kept is not.
    pub(super) fn store(&self, key: &Key, entry: Entry) {
        let is_json = || serde_json::from_slice::<serde_json::Value>(&entry.answer).is_ok();
        if entry.answer.len() <= ANSWER_MAX && !entry.answer.contains(&b'\n') && is_json() {
            self.replace(key, Some(&entry));
        } else {
            self.replace(key, None);
        }
    }

    /// Removes an answer.
    pub(super) fn forget(&self, key: &Key) {
        self.replace(key, None);
    }

    fn replace(&self, key: &Key, entry: Option<&Entry>) {
        let Some(directory) = &self.directory else {
            return;
        };
        if self.get(key).as_ref() == entry {
            return;
        }
        // A full disk, or a lock that is not let go, costs the cache and nothing else.
        let _ = directory.replace(&self.name, |old| file::replaced(old, key, entry));
    }
}
