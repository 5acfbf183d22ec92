//! Processes as `/proc` shows them.

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::kill;

use super::super::{Member, Pid, reserve};
use super::proc::{self, is_gone};

// The guardian's parser, included by path, as there is no crate to share it in.
#[path = "../../../guardian-bin/stat.rs"]
mod stat;

/// Returns the live members of a process group, by `/proc`; zombies do not count.
pub fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    reserve::with(|| list_group(group))
}

fn list_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for pid in numbers_in_proc()? {
        let seen = match look_at(pid) {
            // Hidden from us, as only other users' processes are.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            seen => seen?,
        };
        if let Some(pid) = Pid::new(pid.into())
            && let Some(seen) = seen
            && seen.group == group.as_u32()
            && !seen.is_dead()
        {
            let name = seen.name;
            members.push(Member { pid, name });
        }
    }
    Ok(members)
}

pub fn numbers_in_proc() -> io::Result<Vec<u32>> {
    Ok(entries_of_proc()?.iter().map(|entry| entry.pid).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcEntry {
    pub pid: u32,
    /// The inode number of its directory: a later process with this pid has another.
    pub inode: u64,
}

/// Lists all processes that `/proc` shows, without an allocation for each of them.
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

/// A process of any owner, or a thread, as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Processor time, without its children's.
    pub cpu: Duration,
    /// Its first thread runs, or waits for a processor.
    pub is_runnable: bool,
    /// Its first thread is exiting, or has ended.
    pub is_ending: bool,
    pub is_kernel: bool,
    /// Its first thread has an environment, which may be empty. Valid only for a process that we may
    /// read.
    pub has_environment: bool,
}

/// The state of a process, as far as its end is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessState {
    #[default]
    Live,
    /// Stopped by a signal, until SIGCONT or SIGKILL.
    Stopped,
    /// Stopped by a tracer, until the tracer resumes it or SIGKILL.
    Traced,
    /// Exiting: it runs no instruction of its program any more.
    Exiting,
    Dead,
}

/// Looks at one process; `None` if it has gone, or cannot be looked at.
pub fn see(pid: u32) -> Option<Seen> {
    look_at(pid).ok()?
}

/// Looks at one process; `None` if it has gone. Fails if it cannot be read, or the `/proc` here is
/// that of another PID namespace.
pub fn look_at(pid: u32) -> io::Result<Option<Seen>> {
    Seen::of(proc::bytes_of_process(pid, "stat"))
}

/// Looks at the process, or thread, with this directory in `/proc`.
pub fn look_in(directory: &Path) -> io::Result<Option<Seen>> {
    Seen::of(proc::bytes_of(directory.join("stat")))
}

impl Seen {
    fn of(content: io::Result<Vec<u8>>) -> io::Result<Option<Self>> {
        match content {
            Ok(stat) => Self::parse(&stat)
                .map(Some)
                .ok_or_else(|| io::Error::other("its /proc/PID/stat is not understood")),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let stat = stat::Stat::parse(line)?;
        let pid = stat::number(line.split(|&byte| byte == b' ').next()?)?;
        let name = stat.comm.split(|&byte| byte == 0).next();
        Some(Self {
            pid,
            parent: stat.parent,
            session: stat.session,
            group: stat.group,
            start_time: stat.started,
            name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            state: match stat.state {
                _ if stat.is_dead() => ProcessState::Dead,
                _ if stat.is_exiting() => ProcessState::Exiting,
                b'T' => ProcessState::Stopped,
                b't' => ProcessState::Traced,
                _ => ProcessState::Live,
            },
            cpu: of_ticks(stat.used),
            is_runnable: stat.state == b'R',
            is_ending: stat.is_ending(),
            is_kernel: stat.is_kernel(),
            has_environment: stat.has_environment,
        })
    }

    pub fn is_dead(&self) -> bool {
        self.state == ProcessState::Dead
    }

    /// Returns whether all threads have ended or are exiting, which cannot be undone.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, ProcessState::Exiting | ProcessState::Dead)
    }
}

/// Returns whether the main thread of a process has ended, or is about to, while others go on.
pub fn is_headless(pid: u32) -> io::Result<bool> {
    Ok(look_at(pid)?.is_some_and(|seen| seen.is_ending && !seen.has_ended()))
}

pub fn see_all() -> io::Result<Vec<Seen>> {
    Ok(numbers_in_proc()?.into_iter().filter_map(see).collect())
}

/// Returns the cgroup (version 2) that a process is in, or has ended in; `None` if it has gone or
/// there are no such cgroups.
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

pub fn name_of(pid: u32) -> Option<String> {
    see(pid).map(|seen| seen.name)
}

pub fn own_session() -> io::Result<u32> {
    Ok(nix::unistd::getsid(None)?.as_raw().cast_unsigned())
}

/// Returns the start time of this process, also by the `/proc` of an outer PID namespace.
pub fn own_start_time() -> io::Result<u64> {
    // Unlike its other files, this one can be read also when the first thread has ended.
    let own = look_in(Path::new("/proc/self"))?.ok_or(io::ErrorKind::NotFound)?;
    Ok(own.start_time)
}

/// `USER_HZ`, which is the same on every architecture that Rust supports.
pub(super) const TICKS: u64 = 100;

pub fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// Returns the memory of a process in bytes; shared pages count in part (PSS).
pub fn memory_of(pid: u32) -> Option<u64> {
    let text = proc::text_of_process(pid, "smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sees_oneself() {
        let own = see(std::process::id()).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid().as_raw() as u32);
        assert_eq!(own.state, ProcessState::Live);
        let is_it = |it: &Seen| (it.pid, it.start_time) == (own.pid, own.start_time);
        assert!(see_all().unwrap().iter().any(is_it));
        assert_eq!(tracer_of(own.pid), None);
    }

    #[test]
    fn dangerous_pids_do_not_exist() {
        for pid in [-1, 0, 1, i64::MAX] {
            assert_eq!(Pid::new(pid), None);
        }
    }

    #[test]
    fn a_zombie_whose_threads_live_is_not_dead() {
        let stat = |state, threads| {
            let stat = format!("42 (x) {state} 1 40 40 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 9");
            Seen::parse(stat.as_bytes()).unwrap()
        };
        assert!(stat('Z', 1).is_dead());
        assert!(stat('X', 0).is_dead());
        assert!(!stat('Z', 2).is_dead());
        assert!(!stat('S', 1).is_dead());
        assert!(stat('T', 1).state == ProcessState::Stopped);
        assert!(stat('Z', 2).is_ending && !stat('S', 2).is_ending);
    }

    #[test]
    fn one_that_is_reaped_while_it_is_read_is_dead() {
        let stat = b"42 (x) X 0 -1 -1 0 -1 4 0 0 0 0 0 0 0 0 20 0 0 0 9 0 0";
        let stat = Seen::parse(stat).unwrap();
        assert!(stat.is_dead());
        assert_eq!((stat.parent, stat.group), (0, 0));
    }

    #[test]
    fn this_process_has_an_environment_and_the_kernel_has_none() {
        let own = look_at(std::process::id()).unwrap().unwrap();
        assert!(own.has_environment && !own.is_kernel, "{}", own.name);
        assert!(look_at(u32::MAX).unwrap().is_none());
        match look_at(2).unwrap() {
            Some(second) if second.name == "kthreadd" => assert!(second.is_kernel),
            _ => eprintln!("SKIPPED: no thread of the kernel's own is visible"),
        }
    }

    #[test]
    fn this_process_uses_something() {
        let own = std::process::id();
        assert!(memory_of(own).unwrap() > 100_000);
        let begun = see(own).unwrap().cpu;
        let mut sum = 0_u64;
        while see(own).unwrap().cpu < begun + Duration::from_millis(20) {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31) ^ number);
        }
        std::hint::black_box(sum);
        assert_eq!((memory_of(u32::MAX), see(u32::MAX)), (None, None));
    }
}
