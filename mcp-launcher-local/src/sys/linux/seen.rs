//! Processes as `/proc` shows them.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::signal::kill;
use nix::sys::stat::Mode;

use super::super::stat::{Stat, is_gone};
use super::super::{Member, Pid, reserve};

/// The live members of a process group, by `/proc`; zombies do not count.
pub(crate) fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    reserve::with(|| list_group(group))
}

fn list_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for pid in numbers_in_proc()? {
        let stat = match Stat::read(pid) {
            // Hidden from us, as only other users' are.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            stat => stat?,
        };
        if let Some(pid) = Pid::new(pid.into())
            && let Some(stat) = stat
            && stat.group == group.as_u32()
            && !stat.is_dead()
        {
            members.push(Member {
                pid,
                name: stat.name,
            });
        }
    }
    Ok(members)
}

/// A file of `/proc` in which there are names, of processes, mounts or cgroups: bytes of
/// anybody's choice. The kernel cuts a name at 15 of them, in the middle of a character.
pub(crate) fn text_of(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(path)?).into_owned())
}

/// The content of a file of `/proc`, which does not say how long it is: a page of it is asked
/// for at once, where [`fs::read`] begins with 32 bytes.
pub(crate) fn bytes_of(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut bytes = Vec::with_capacity(PAGE);
    // Of what is limited, the length is not asked for.
    let file = fs::File::open(path)?;
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The number of every process that `/proc` shows.
pub(crate) fn numbers_in_proc() -> io::Result<Vec<u32>> {
    Ok(entries_of_proc()?.iter().map(|entry| entry.pid).collect())
}

/// A process in a listing of `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcEntry {
    pub(crate) pid: u32,
    /// That of its directory, counted up by the kernel from boot on: whoever has the same number later has another.
    pub(crate) inode: u64,
}

/// Every process that `/proc` shows. Allocates nothing for each of them, as [`fs::read_dir`] does.
pub(crate) fn entries_of_proc() -> io::Result<Vec<ProcEntry>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Dir::open("/proc", flags, Mode::empty())?;
    let mut entries = Vec::with_capacity(128);
    for entry in listing.iter() {
        let entry = entry?;
        let pid = entry
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse().ok());
        let inode = entry.ino();
        entries.extend(pid.map(|pid| ProcEntry { pid, inode }));
    }
    Ok(entries)
}

/// A process as `/proc` shows it, whoever's it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// 0 where its leader is not visible.
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    pub(crate) name: String,
    pub(crate) state: ProcessState,
}

/// The state of a process, as far as its end is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Live,
    /// By a signal, until SIGCONT or SIGKILL.
    Stopped,
    /// By a tracer, until that lets go or SIGKILL.
    Traced,
    /// On its way out: it runs no instruction of its program any more.
    Exiting,
    /// All of it has ended; it is not reaped yet.
    Dead,
}

/// Looks at one process; `None` if it has gone, or cannot be looked at.
pub(crate) fn see(pid: u32) -> Option<Seen> {
    look_at(pid).ok()?
}

/// Looks at one process; `None` if it has gone.
pub(crate) fn look_at(pid: u32) -> io::Result<Option<Seen>> {
    Ok(Stat::read(pid)?.map(|stat| Seen {
        pid,
        parent: stat.parent,
        session: stat.session,
        start_time: stat.start_time,
        state: match stat.state {
            _ if stat.is_dead() => ProcessState::Dead,
            _ if stat.is_exiting() => ProcessState::Exiting,
            'T' => ProcessState::Stopped,
            't' => ProcessState::Traced,
            _ => ProcessState::Live,
        },
        name: stat.name,
    }))
}

/// Returns whether the main thread of a process has ended while others go on.
pub(crate) fn is_headless(pid: u32) -> io::Result<bool> {
    Ok(Stat::read(pid)?.is_some_and(|stat| stat.state == 'Z' && !stat.is_dead()))
}

/// Every process that can be looked at.
pub(crate) fn see_all() -> io::Result<Vec<Seen>> {
    Ok(numbers_in_proc()?.into_iter().filter_map(see).collect())
}

/// The cgroup of version 2 that a process is in, or has ended in; `None` if there
/// is no such process any more, or no such cgroups.
pub(crate) fn cgroup_of(pid: u32) -> io::Result<Option<String>> {
    let cgroups = match text_of(format!("/proc/{pid}/cgroup")) {
        Err(error) if is_gone(&error) => return Ok(None),
        cgroups => cgroups?,
    };
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(path.map(str::to_owned))
}

/// The tracer of a process: while it traces, nobody else can reap it.
pub(crate) fn tracer_of(pid: u32) -> Option<u32> {
    let status = text_of(format!("/proc/{pid}/status")).ok()?;
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer?.trim().parse().ok().filter(|&tracer| tracer > 0)
}

/// When a process started, in clock ticks since boot.
pub(crate) fn start_time(pid: Pid) -> Option<u64> {
    see(pid.as_u32()).map(|seen| seen.start_time)
}

/// Returns whether there is such a process, or thread, and we might signal it.
pub(crate) fn may_signal(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.is_some_and(|pid| kill(nix::unistd::Pid::from_raw(pid), None).is_ok())
}

/// The name that a process gives itself.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    see(pid).map(|seen| seen.name)
}

/// When this process started, also where `/proc` is that of an outer PID
/// namespace and knows it by another number.
pub(crate) fn own_start_time() -> io::Result<u64> {
    let own = fs::read_link("/proc/self")?;
    let own = own.to_str().and_then(|own| own.parse().ok());
    let own = own.ok_or(io::ErrorKind::InvalidData)?;
    let stat = Stat::read(own)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(stat.start_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sees_oneself() {
        let own = see(std::process::id()).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid().as_raw() as u32);
        assert_eq!(own.state, ProcessState::Live);
        assert!(see_all().unwrap().contains(&own));
        assert_eq!(tracer_of(own.pid), None);
    }

    /// How many times this thread has asked to read, with this one.
    fn reads() -> Option<u64> {
        let io = text_of("/proc/thread-self/io").ok()?;
        let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
        count?.parse().ok()
    }

    #[test]
    fn a_file_of_a_page_is_read_at_once() {
        let Some(before) = reads() else {
            eprintln!("SKIPPED: this kernel does not count reads");
            return;
        };
        let status = text_of("/proc/self/status").unwrap();
        let after = reads().unwrap();
        assert!(status.len() > 512 && status.ends_with('\n'), "{status}");
        // The file, its end, and the end of the counter before; the counter itself.
        assert!(after - before <= 4, "{} reads", after - before);
    }

    #[test]
    fn dangerous_pids_do_not_exist() {
        for pid in [-1, 0, 1, i64::MAX] {
            assert_eq!(Pid::new(pid), None);
        }
    }
}
