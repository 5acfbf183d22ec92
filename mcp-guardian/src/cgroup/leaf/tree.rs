//! A cgroup with its nested cgroups, by path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use crate::sys::{self, Pid, is_gone};

const HELD_MAX: usize = 16;

pub(super) enum Removal {
    Done,
    /// A process is inside.
    Busy,
}

/// Removes an empty cgroup and the empty cgroups nested in it.
pub(super) fn remove(path: &Path) -> io::Result<Removal> {
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

/// Kills everything inside, including what is being forked meanwhile.
pub(super) fn kill(path: &Path) -> io::Result<()> {
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

/// Returns whether the cgroup or one nested in it has a process.
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
pub(super) fn absent_is<T>(path: &Path, result: io::Result<T>, absent: T) -> io::Result<T> {
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

pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}
