//! One cgroup of one server.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs, statfs};

use crate::identity::{Cookie, random};
use crate::limits::Limits;
use crate::sys::watch::{self, Interest};
use crate::sys::{self, Pid, is_gone, reserve};

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

/// The maximum of processes that are held at a time.
const HELD_MAX: usize = 16;

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
    /// Creates the cgroup of a new server below `parent`, with a random name where the server has no
    /// identity. An existing one is an error: it may have been killed before, or belong to another
    /// owner.
    pub fn create(parent: &Path, server: Option<&Cookie>) -> io::Result<Self> {
        let path = parent.join(match server {
            Some(server) => super::name(server),
            None => format!("mcp-{:016x}{:016x}", random()?, random()?),
        });
        DirBuilder::new().mode(0o755).create(&path)?;
        let depth = open_to_write(&path.join("cgroup.max.depth"));
        let _ = depth.and_then(|mut file| file.write_all(DEPTH_MAX));
        Ok(Self::at(path))
    }

    /// Limits what all processes inside use together.
    pub fn limit(&self, limits: &Limits) -> io::Result<()> {
        let write = |name: &str, text: &str| {
            let said = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            let file = open_to_write(&self.path.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(said)
        };
        if let Some(pids) = limits.pids {
            write("pids.max", &pids.to_string())?;
        }
        if let Some(cpus) = limits.cpus {
            // Microseconds of each 100,000.
            write("cpu.max", &format!("{} 100000", cpus.saturating_mul(100)))?;
        }
        let Some(memory) = limits.memory else {
            return Ok(());
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

/// Kills everything inside, including what is being forked meanwhile.
fn kill(path: &Path) -> io::Result<()> {
    let order = || open_to_write(&path.join("cgroup.kill"))?.write_all(b"1");
    order()?;
    if kill_headless(path)? {
        // For the children those forked in the meantime.
        let _ = order();
    }
    Ok(())
}

/// Kills the processes that the kernel's order misses: it signals main threads only (Linux 6.18),
/// and a process outlives its main thread. Returns whether there were any.
fn kill_headless(path: &Path) -> io::Result<bool> {
    let list = || {
        let mut found = Vec::new();
        members(path, &mut found).map(|()| found)
    };
    let mut headless = Vec::new();
    for pid in list()? {
        if sys::is_headless(pid)? {
            headless.push(pid);
        }
    }
    for some in headless.chunks(HELD_MAX) {
        let mut held = Vec::new();
        for &pid in some {
            match Pid::new(pid.into()).map(sys::hold) {
                Some(Ok(process)) => held.push((pid, process)),
                Some(Err(error)) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        // The descriptor is opened by pid, so the holder of that pid must still be inside.
        let still = list()?;
        for (pid, process) in held {
            if still.contains(&pid)
                && let Err(error) = sys::kill_held(&process)
            {
                crate::logged!(debug, pid, %error, "a process without a main thread cannot be killed");
            }
        }
    }
    Ok(!headless.is_empty())
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

enum Removal {
    Done,
    Busy,
}

/// Removes an empty cgroup and the empty cgroups nested in it.
fn remove(path: &Path) -> io::Result<Removal> {
    let remove_dir = || absent_is(path, fs::remove_dir(path), ());
    match remove_dir() {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            if is_populated(&File::open(path.join("cgroup.events"))?)? {
                return Ok(Removal::Busy);
            }
            for inside in directories_in(path)? {
                if matches!(remove(&inside)?, Removal::Busy) {
                    return Ok(Removal::Busy);
                }
            }
            remove_dir()
        }
        done => done,
    }
    .map(|()| Removal::Done)
}

/// Returns whether the cgroup or one nested in it has a process.
fn is_populated(mut events: &File) -> io::Result<bool> {
    let mut text = String::new();
    events.rewind()?;
    events.read_to_string(&mut text)?;
    Ok(!text.lines().any(|line| line == "populated 0"))
}

fn members(path: &Path, found: &mut Vec<u32>) -> io::Result<()> {
    match fs::read_to_string(path.join("cgroup.procs")) {
        Ok(procs) => {
            for pid in procs.lines() {
                found.push(pid.parse().map_err(io::Error::other)?);
            }
        }
        // A threaded cgroup: its processes are those of the one above.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(error) => return absent_is(path, Err(error), ()),
    }
    let inside = absent_is(path, directories_in(path), Vec::new())?;
    inside.iter().try_for_each(|path| members(path, found))
}

/// Lists the nested directories, before any is descended into: one descriptor instead of one a level.
fn directories_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // The kind as the directory has it: links are not followed.
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns `absent` if the cgroup was removed meanwhile, and an error if its hierarchy is not visible
/// any more at this path.
fn absent_is<T>(path: &Path, result: io::Result<T>, absent: T) -> io::Result<T> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(absent),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match is_in_hierarchy(path) {
            true => Ok(absent),
            false => Err(io::Error::new(
                error.kind(),
                "cgroups are not visible any more",
            )),
        },
        other => other,
    }
}

/// Returns whether the nearest directory above is a cgroup.
fn is_in_hierarchy(path: &Path) -> bool {
    let above = path
        .ancestors()
        .skip(1)
        .find_map(|above| statfs(above).ok());
    above.is_some_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
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
