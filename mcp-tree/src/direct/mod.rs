//! Direct start: the package behind `npx` is executed by its own entry, and the runner does not
//! stay.
//!
//! Certain, or not at all. The runner's cache and its settings are read; nothing is written, no
//! program is started, and no registry is asked. All else is left to the runner, unchanged:
//!
//! | asked for | executed directly if |
//! |---|---|
//! | an exact version | the runner's cache has it, and its record of the install agrees |
//! | a tag, or a name alone | the same, and the registry's last answer to the runner, in its cache and younger than the given age, has this version for the tag |
//! | a range, an address, a directory, several packages, `--call` | never |
//!
//! The copy in the cache counts only if it cannot be of another hand or half an install: all of it
//! is this user's and not writable for others, its entry is inside the package, the runner does not
//! hold its lock, and the record of the install is no older than its directories.
//!
//! And only if the runner would not prefer something else: a program or a package of the project, a
//! package that is installed globally, a workspace. Each option and each setting of the runner must
//! be known here, since it may change the answer or the environment.
//!
//! The server has the arguments, the working directory and the environment that the runner would
//! give it. `docs/contain-reference.md` lists what differs.

mod cached;
mod environment;
mod npx;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::command::Command;

/// The manner in which a command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The command as it is.
    Unchanged,
    /// The command as it is: a runner, which installs this package first.
    Installs(String),
    /// The entry of a package.
    Direct,
}

/// The reason to leave a command to its runner.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is no runner that is known here.
    Runner,
    /// Its words are not understood, or their answer is never certain.
    Words,
    /// Its settings are not understood, or their answer is never certain.
    Settings,
    /// The project, or a package that is installed globally, may be preferred.
    Preferred,
    /// The package is not in the cache.
    Missing(String),
    /// The copy in the cache may be of another hand, of another version, or half an install.
    Copy,
    /// The entry is unclear, or no program of the package.
    Entry,
    /// The registry's last answer to the runner is too old, or has another version.
    Answer,
}

/// The program of a package, and what its runner would add to the environment.
#[derive(Debug)]
struct Entry {
    program: PathBuf,
    arg0: OsString,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
}

/// Replaces the command of a runner by that of its package, if it is certain which one that is.
/// `age` is the greatest age of the registry's answer about a tag. Reads files.
pub fn replace(command: &mut Command, age: Duration) -> Start {
    let now = SystemTime::now();
    let oldest = now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    match find(command, &(oldest..now)) {
        Ok(entry) => {
            command.program = entry.program;
            command.arg0 = entry.arg0;
            command.args = entry.args;
            command.env.extend(entry.env);
            Start::Direct
        }
        Err(Refusal::Missing(package)) => Start::Installs(package),
        Err(_) => Start::Unchanged,
    }
}

fn find(command: &Command, fresh: &Range<SystemTime>) -> Result<Entry, Refusal> {
    let runner = Path::new(&command.arg0).file_name();
    match (runner.and_then(|name| name.to_str()), &command.args[..]) {
        (Some("npx"), words) => npx::find(command, words, true, fresh),
        (Some("npm"), [verb, words @ ..]) if verb == "exec" || verb == "x" => {
            npx::find(command, words, false, fresh)
        }
        _ => Err(Refusal::Runner),
    }
}

fn require(holds: bool, otherwise: Refusal) -> Result<(), Refusal> {
    holds.then_some(()).ok_or(otherwise)
}

/// Returns the text of a file; a missing one is empty.
fn text_of(path: &Path, otherwise: Refusal) -> Result<String, Refusal> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|_| otherwise),
    }
}

fn begins(path: &Path, with: &[u8]) -> bool {
    let mut start = vec![0; with.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == with
}

/// Requires that no other user can have written a file, directory or link.
fn own(path: &Path) -> Result<fs::Metadata, Refusal> {
    let found = path.symlink_metadata().map_err(|_| Refusal::Copy)?;
    let is_private = found.is_symlink() || found.mode() & 0o002 == 0;
    let is_own = found.uid() == nix::unistd::geteuid().as_raw();
    require(is_own && is_private, Refusal::Copy)?;
    Ok(found)
}

/// Returns the name and the version of the package of a program that was started directly.
pub fn package_of(program: &Path) -> Option<String> {
    let mut above = program.ancestors().skip(1);
    let (bins, modules, cache) = (above.next()?, above.next()?, above.nth(1)?);
    require(
        bins.ends_with("node_modules/.bin") && cache.ends_with("_npx"),
        Refusal::Runner,
    )
    .ok()?;
    let target = fs::read_link(program).ok()?;
    let mut parts = target.strip_prefix("..").ok()?.iter();
    let mut home = modules.join(parts.next()?);
    if home.file_name()?.to_str()?.starts_with('@') {
        home.push(parts.next()?);
    }
    let package = cached::Manifest::read(&home).ok()?;
    Some(format!("{}@{}", package.name, package.version))
}
