//! A cgroup and those that were made inside of it, by its path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys::stat::is_gone;
use crate::sys::{self, Pid};

/// The number of processes that are held at a time, each by a descriptor.
const HELD_MAX: usize = 16;

/// Outcome of a removal.
pub(super) enum Removal {
    Done,
    /// Somebody is inside.
    Busy,
}

/// Removes an empty cgroup, and those that the server made inside of it.
pub(super) fn remove(path: &Path) -> io::Result<Removal> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(Removal::Done),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::Done),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            if is_populated(&File::open(path.join("cgroup.events"))?)? {
                return Ok(Removal::Busy);
            }
            for inside in directories_in(path)? {
                if matches!(remove(&inside)?, Removal::Busy) {
                    return Ok(Removal::Busy);
                }
            }
            match fs::remove_dir(path) {
                Ok(()) => Ok(Removal::Done),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::Done),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Ends everything inside, also what is being forked at this moment.
pub(super) fn kill(path: &Path) -> io::Result<()> {
    let order = || open_to_write(&path.join("cgroup.kill"))?.write_all(b"1");
    order()?;
    if kill_headless(path)? {
        // For what those have forked since.
        let _ = order();
    }
    Ok(())
}

/// Ends those whom the kernel's order passes by: it goes to the main thread
/// alone (Linux 6.18), and a process whose main thread has ended lives on. Says
/// whether there were any.
///
/// # Errors
///
/// One of them may live, and nobody has sent it the signal.
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
        // Whoever has the number now is inside, or not killed.
        let still = list()?;
        for (pid, process) in held {
            if still.contains(&pid)
                && let Err(error) = sys::kill_held(&process)
            {
                sys::shielded(|| {
                    tracing::debug!(pid, %error, "a process without a main thread cannot be killed");
                });
            }
        }
    }
    Ok(!headless.is_empty())
}

/// Returns whether anybody is inside, or inside of what is inside.
pub(super) fn is_populated(mut events: &File) -> io::Result<bool> {
    let mut text = String::new();
    events.rewind()?;
    events.read_to_string(&mut text)?;
    Ok(!text.lines().any(|line| line == "populated 0"))
}

pub(super) fn members(path: &Path, found: &mut Vec<u32>) -> io::Result<()> {
    match fs::read_to_string(path.join("cgroup.procs")) {
        Ok(procs) => {
            for pid in procs.lines() {
                found.push(pid.parse().map_err(io::Error::other)?);
            }
        }
        // A threaded cgroup: its processes are those of the one above.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(error) => return absent_is(Err(error), ()),
    }
    let inside = absent_is(directories_in(path), Vec::new())?;
    inside.iter().try_for_each(|path| members(path, found))
}

/// The directories in this one. All of it is read before anybody descends, which
/// would take a descriptor for each level.
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

/// Takes a removal meanwhile for no failure.
pub(super) fn absent_is<T>(result: io::Result<T>, absent: T) -> io::Result<T> {
    match result {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ENODEV) =>
        {
            Ok(absent)
        }
        other => other,
    }
}

pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}
