//! Records of what runners have executed: one file for each command, in a directory of this user.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mcp_guardian::private;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key::{hex, mark_of, specification};
use crate::command::Command;
use crate::sys;

/// The most files in the directory; with more, nothing is recorded.
const FILES_MAX: usize = 1024;

/// Files and directories by their [`identity`].
pub(super) type Files = BTreeMap<PathBuf, String>;

/// A start that can be repeated.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) program: PathBuf,
    /// The words before the server's own arguments, with `argv[0]`.
    pub(super) words: Vec<String>,
    /// The number of the server's own arguments, which are the last ones of the command.
    pub(super) arguments: usize,
    pub(super) set: BTreeMap<String, String>,
    pub(super) removed: BTreeSet<String>,
    pub(super) files: Files,
}

impl Record {
    /// Returns a record that is younger than `age`.
    pub(super) fn read(file: &Path, age: Duration) -> Option<Self> {
        let modified = file.metadata().and_then(|it| it.modified()).ok()?;
        // One of the future has no age.
        let is_fresh = SystemTime::now().duration_since(modified).ok()? < age;
        is_fresh.then(|| read(file))?
    }

    /// Changes a command to what is recorded, unless a file has changed.
    pub(super) fn repeat(self, command: &mut Command) -> bool {
        let is_same = |(path, known): (&PathBuf, &String)| identity(path) == *known;
        let Some((arg0, words)) = self.words.split_first() else {
            return false;
        };
        let first = command.args.len().checked_sub(self.arguments);
        let Some(first) = first.filter(|_| self.files.iter().all(is_same)) else {
            return false;
        };
        let arguments = command.args.split_off(first);
        command.program = self.program;
        command.arg0 = arg0.into();
        command.args = words.iter().map(OsString::from).chain(arguments).collect();
        for name in self.removed {
            command.env.remove(OsStr::new(&name));
        }
        let set = self.set.into_iter();
        let set = set.map(|(name, value)| (name.into(), value.into()));
        command.env.extend(set);
        true
    }
}

/// The surroundings of a start that is to be recorded. Words and values are there as hashes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Surroundings {
    pub(super) directory: PathBuf,
    pub(super) words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) files: Files,
}

impl Surroundings {
    /// Returns `None` if a name is no UTF-8.
    pub(super) fn of(command: &Command, files: Vec<PathBuf>) -> Option<Self> {
        let env = command.env.iter();
        let env = env.map(|(name, value)| Some((name.to_str()?.to_owned(), mark_of(value))));
        Some(Self {
            directory: directory_of(command)?,
            words: command.args.iter().map(|word| mark_of(word)).collect(),
            env: env.collect::<Option<_>>()?,
            files: identities(files),
        })
    }
}

pub(super) fn directory_of(command: &Command) -> Option<PathBuf> {
    let directory = command.cwd.clone().or_else(|| env::current_dir().ok());
    directory?.canonicalize().ok()
}

/// Returns the file of a command's record, in a directory that only this user can change.
pub(super) fn file_of(command: &Command) -> Option<PathBuf> {
    let home = Path::new(sys::variable(&command.env, "HOME")?);
    let directory = home.join(".cache/mcp-contain/direct");
    private::create(&directory).ok()?;
    let mut words = vec![command.program.clone().into(), command.arg0.clone()];
    words.extend(command.args.iter().cloned());
    let key = specification(&words, &directory_of(command)?, &command.env);
    Some(directory.join(hex(&key)))
}

/// Returns what tells a file or directory from another one, and from itself after a change.
fn identity(path: &Path) -> String {
    let Ok(found) = path.metadata() else {
        return String::new();
    };
    let (number, changed) = (found.ino(), found.ctime());
    format!("{number}, {changed}.{:09}", found.ctime_nsec())
}

pub(super) fn identities(paths: impl IntoIterator<Item = PathBuf>) -> Files {
    let identified = |path: PathBuf| {
        let identity = identity(&path);
        (path, identity)
    };
    paths.into_iter().map(identified).collect()
}

pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Writes a file of the directory in one step.
pub(super) fn write(file: &Path, content: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(content)?;
    let new = file.with_extension(std::process::id().to_string());
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let written = || options.open(&new)?.write_all(&text);
    #[cfg(target_os = "linux")]
    let written = || mcp_guardian::file_size::shielded(written);
    written()?;
    fs::rename(new, file)
}

/// Removes what is older than `age`. Returns whether there is room for another record.
pub(super) fn prune(directory: &Path, age: Duration) -> io::Result<bool> {
    let mut count = 0;
    for entry in fs::read_dir(directory)?.flatten() {
        let modified = entry.metadata().and_then(|it| it.modified());
        let age_of = modified.map(|it| it.elapsed().unwrap_or_default());
        if age_of.is_ok_and(|it| it > age) {
            fs::remove_file(entry.path())?;
        } else {
            count += 1;
        }
    }
    Ok(count < FILES_MAX)
}
