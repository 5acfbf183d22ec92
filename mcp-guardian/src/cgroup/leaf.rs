//! One cgroup of one server.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};

use self::tree::{Removal, absent_is, is_populated, kill, members, open_to_write, remove};
use crate::sys::reserve;
use crate::sys::watch::{self, Interest};

mod tree;

/// A cgroup that this process has created, and removes. It holds no descriptor.
///
/// # Drop
///
/// Like [`end`](Self::end), but a failure is only logged.
#[derive(Debug)]
pub struct Leaf {
    path: PathBuf,
    /// Already removed, or left for another process to remove.
    settled: Arc<AtomicBool>,
}

/// The maximum depth of cgroups that a server may nest in its own.
const DEPTH_MAX: &[u8] = b"64";

/// The files of a leaf that the guardian and the server need.
#[derive(Debug)]
pub struct Doors {
    /// The directory, to clone a process into it.
    pub directory: File,
    /// `cgroup.procs`: a process joins by writing "0".
    pub procs: File,
    /// `cgroup.kill`: writing "1" kills everything inside.
    pub kill: File,
}

impl Leaf {
    /// Creates the cgroup `name` below `parent`. An existing one is an error: it may have been
    /// killed before, or belong to another owner.
    pub fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        DirBuilder::new().mode(0o755).create(&path)?;
        let depth = open_to_write(&path.join("cgroup.max.depth"));
        let _ = depth.and_then(|mut file| file.write_all(DEPTH_MAX));
        Ok(Self::at(path))
    }

    /// Limits the memory of all processes inside together; on excess the kernel kills all of them.
    pub fn limit(&self, memory: u64) -> io::Result<()> {
        let write = |name: &str, text: &str| {
            let said = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            let file = open_to_write(&self.path.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(said)
        };
        // First, so that the out-of-memory killer always ends all members.
        write("memory.oom.group", "1")?;
        match write("memory.swap.max", "0") {
            // There is no swap, or it is not accounted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        write("memory.max", &memory.to_string())
    }

    /// Takes over a cgroup that an earlier host has created. Fails for a directory of any other
    /// file system, which we must not empty.
    pub fn adopt(path: PathBuf) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = open(&path, flags, Mode::empty())?;
        if fstatfs(&directory)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self::at(path))
    }

    fn at(path: PathBuf) -> Self {
        Self {
            path,
            settled: Arc::default(),
        }
    }

    /// Gives up ownership: the cgroup was removed, or is left alone with its processes.
    pub fn abandon(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Opens the files. The host does it, because the kernel checks the opener's rights.
    pub fn open(&self) -> io::Result<Doors> {
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Doors {
            directory: open(&self.path, directory, Mode::empty())?.into(),
            procs: open_to_write(&self.path.join("cgroup.procs"))?,
            // Linux 5.14 or later; without it a leaf is useless.
            kill: open_to_write(&self.path.join("cgroup.kill"))?,
        })
    }

    pub fn is_named_in(&self, path: &str) -> bool {
        self.name()
            .to_str()
            .is_some_and(|name| path.contains(&format!("/{name}")))
    }

    /// Returns the pids of the members, including those in nested cgroups; 0 for a process in a PID
    /// namespace that is not visible here. A removed cgroup has no members.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        members(&self.path, &mut found)?;
        Ok(found)
    }

    pub fn remove_empty(&self) -> bool {
        let removed = fs::remove_dir(&self.path).is_ok();
        self.settled.fetch_or(removed, Ordering::Relaxed);
        removed
    }

    /// Does the same as [`end`](Self::end), and returns whether nothing is left within `limit`.
    pub fn remove_within(&self, limit: Duration) -> io::Result<bool> {
        let (sender, receiver) = mpsc::channel();
        self.end(move |ended| drop(sender.send(ended)));
        let ended = receiver.recv_timeout(limit);
        ended.map_or(Ok(false), |ended| ended.map(|()| true))
    }

    /// Kills everything inside without waiting. Succeeds if the cgroup is gone.
    pub fn kill(&self) -> io::Result<()> {
        if self.settled.load(Ordering::Relaxed) {
            return Ok(());
        }
        absent_is(&self.path, reserve::with(|| kill(&self.path)), ())
    }

    /// Kills what is inside and removes the cgroup. Calls `done` when nothing is left: at once, or
    /// on the watcher's thread, when the kernel reports it. Can be called again after a failure.
    pub fn end(&self, done: impl FnOnce(io::Result<()>) + Send + 'static) {
        let settled = Arc::clone(&self.settled);
        end(self.path.clone(), move |result| {
            settled.fetch_or(result.is_ok(), Ordering::Relaxed);
            done(result);
        });
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if self.settled.load(Ordering::Relaxed) {
            return;
        }
        end(std::mem::take(&mut self.path), |result| {
            if let Err(error) = result {
                crate::logged!(warn, %error, "a cgroup could not be removed");
            }
        });
    }
}

fn end(path: PathBuf, done: impl FnOnce(io::Result<()>) + Send + 'static) {
    let kill = || {
        // Opened first: the descriptor reports every change after its first read.
        let events = File::open(path.join("cgroup.events"))?;
        kill(&path).map(|()| events)
    };
    match reserve::with(|| remove(&path)) {
        Ok(Removal::Done) => done(Ok(())),
        Ok(Removal::Busy) => match reserve::with(kill) {
            Ok(events) => remove_when_empty(path, Arc::new(events), done),
            Err(error) => done(Err(error)),
        },
        Err(error) => done(Err(error)),
    }
}

/// Calls `done` once, from here or from the watcher's thread.
fn remove_when_empty(
    path: PathBuf,
    events: Arc<File>,
    done: impl FnOnce(io::Result<()>) + Send + 'static,
) {
    let done = Arc::new(Mutex::new(Some(done)));
    let say = move |result| {
        let done = done.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(done) = done {
            done(result);
        }
    };
    let say_no = say.clone();
    let state = Arc::clone(&events);
    let look = move || {
        let removed = match is_populated(&state) {
            Ok(true) => Ok(Removal::Busy),
            Ok(false) => remove(&path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(Removal::Busy) => return Interest::More,
            removed => say(removed.map(drop)),
        }
        Interest::Done
    };
    // Before the first read, the kernel always reports a change.
    if let Err(error) = watch::changed(events, look) {
        say_no(Err(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_is_not_visible_is_not_taken_for_removed() {
        let elsewhere = tempfile::tempdir().unwrap();
        for parent in ["", "host/server"] {
            let leaf = Leaf::at(elsewhere.path().join(parent).join("mcp-0"));
            assert!(leaf.members().is_err());
            assert!(leaf.kill().is_err());
            assert!(leaf.remove_within(Duration::ZERO).is_err());
            let (said, heard) = mpsc::channel();
            leaf.end(move |ended| said.send(ended).unwrap());
            assert!(heard.recv().unwrap().is_err());
        }
    }
}
