//! Processes as `/proc` shows them.

use std::io;
use std::path::Path;

use nix::sys::signal::kill;

use super::super::stat::{Stat, is_gone};
use super::super::{Member, Pid, reserve};
use super::proc;

/// Returns the live members of a process group, by `/proc`; zombies do not count.
pub fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    reserve::with(|| list_group(group))
}

fn list_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for pid in numbers_in_proc()? {
        let stat = match Stat::read(pid) {
            // Hidden from us, as only other users' processes are.
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

/// Returns the pids of all processes that `/proc` shows.
pub fn numbers_in_proc() -> io::Result<Vec<u32>> {
    Ok(entries_of_proc()?.iter().map(|entry| entry.pid).collect())
}

/// A process in a listing of `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcEntry {
    pub pid: u32,
    /// The inode number of its directory, counted up by the kernel since boot: a later process with
    /// this pid has another.
    pub inode: u64,
}

/// Lists all processes that `/proc` shows, without an allocation for each of them, unlike
/// [`read_dir`](std::fs::read_dir).
pub fn entries_of_proc() -> io::Result<Vec<ProcEntry>> {
    let mut listing = proc::listing()?;
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

/// A process of any owner, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub pid: u32,
    pub parent: u32,
    /// The session's id; 0 where its leader is not visible.
    pub session: u32,
    /// The process group's id; 0 where its leader is not visible.
    pub group: u32,
    pub start_time: u64,
    pub name: String,
    pub state: ProcessState,
}

/// The state of a process, as far as its end is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    Live,
    /// Stopped by a signal, until SIGCONT or SIGKILL.
    Stopped,
    /// Stopped by a tracer, until the tracer resumes it or SIGKILL.
    Traced,
    /// Exiting: it runs no instruction of its program any more.
    Exiting,
    /// All threads have ended; it is not reaped yet.
    Dead,
}

/// Looks at one process; `None` if it has gone, or cannot be looked at.
pub fn see(pid: u32) -> Option<Seen> {
    look_at(pid).ok()?
}

/// Looks at one process; `None` if it has gone.
pub fn look_at(pid: u32) -> io::Result<Option<Seen>> {
    Ok(Stat::read(pid)?.map(|stat| Seen {
        pid,
        parent: stat.parent,
        session: stat.session,
        group: stat.group,
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
pub fn is_headless(pid: u32) -> io::Result<bool> {
    Ok(Stat::read(pid)?.is_some_and(|stat| stat.state == 'Z' && !stat.is_dead()))
}

/// Reads all processes that can be read.
pub fn see_all() -> io::Result<Vec<Seen>> {
    Ok(numbers_in_proc()?.into_iter().filter_map(see).collect())
}

/// Returns the cgroup of version 2 that a process is in, or has ended in; `None` if the process has
/// gone or there are no such cgroups.
pub fn cgroup_of(pid: u32) -> io::Result<Option<String>> {
    let cgroups = match proc::text_of_process(pid, "cgroup") {
        Err(error) if is_gone(&error) => return Ok(None),
        cgroups => cgroups?,
    };
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(path.map(str::to_owned))
}

/// Returns the tracer of a process: while it traces, no other process can reap the traced one.
pub fn tracer_of(pid: u32) -> Option<u32> {
    let status = proc::text_of_process(pid, "status").ok()?;
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer?.trim().parse().ok().filter(|&tracer| tracer > 0)
}

/// Returns the start time of a process, in clock ticks since boot.
pub fn start_time(pid: Pid) -> Option<u64> {
    see(pid.as_u32()).map(|seen| seen.start_time)
}

/// Returns whether there is such a process, or thread, that we may signal.
pub fn may_signal(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.is_some_and(|pid| kill(nix::unistd::Pid::from_raw(pid), None).is_ok())
}

/// Returns the name of a process.
pub fn name_of(pid: u32) -> Option<String> {
    see(pid).map(|seen| seen.name)
}

/// Returns the session of this process; 0 where its leader is not visible.
pub fn own_session() -> io::Result<u32> {
    Ok(nix::unistd::getsid(None)?.as_raw().cast_unsigned())
}

/// Returns the start time of this process, also where `/proc` is that of an outer PID namespace
/// with another pid for it.
pub fn own_start_time() -> io::Result<u64> {
    // Unlike its other files, this one can be read also when the first thread has ended.
    let stat = Stat::read_in(Path::new("/proc/self"))?.ok_or(io::ErrorKind::NotFound)?;
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

    #[test]
    fn dangerous_pids_do_not_exist() {
        for pid in [-1, 0, 1, i64::MAX] {
            assert_eq!(Pid::new(pid), None);
        }
    }
}
