//! What a process inherits besides what a launch names.
//!
//! A guardian that was started before has what its host had then. It serves a launch only where that would be no
//! other now: a host may have raised a limit, or changed its user.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;
use nix::unistd::read;

use crate::sys;

/// Lines of `/proc/PID/status` (proc_pid_status(5)).
const STATUS: &[&str] = &[
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
    "THP_enabled",
    "Cpus_allowed",
    "Mems_allowed",
];

/// Links in `/proc/PID/ns`.
const NAMESPACES: &[&str] = &[
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid_for_children",
    "time_for_children",
    "user",
    "uts",
];

/// Files below `/proc/PID`, of a thread.
const FILES: &[&str] = &["cgroup", "oom_score_adj", "../../coredump_filter"];

/// What a security module keeps below `/proc/PID`: the label of a thread, and that of what it executes next.
const LABEL: &str = "attr/current";
const NEXT_LABEL: &str = "attr/exec";

/// This kernel has no security module that labels, and will have none before its next boot.
static IS_WITHOUT_LABELS: AtomicBool = AtomicBool::new(false);

const LIMITS: [(&str, Resource); 16] = [
    ("RLIMIT_AS", Resource::RLIMIT_AS),
    ("RLIMIT_CORE", Resource::RLIMIT_CORE),
    ("RLIMIT_CPU", Resource::RLIMIT_CPU),
    ("RLIMIT_DATA", Resource::RLIMIT_DATA),
    ("RLIMIT_FSIZE", Resource::RLIMIT_FSIZE),
    ("RLIMIT_LOCKS", Resource::RLIMIT_LOCKS),
    ("RLIMIT_MEMLOCK", Resource::RLIMIT_MEMLOCK),
    ("RLIMIT_MSGQUEUE", Resource::RLIMIT_MSGQUEUE),
    ("RLIMIT_NICE", Resource::RLIMIT_NICE),
    ("RLIMIT_NOFILE", Resource::RLIMIT_NOFILE),
    ("RLIMIT_NPROC", Resource::RLIMIT_NPROC),
    ("RLIMIT_RSS", Resource::RLIMIT_RSS),
    ("RLIMIT_RTPRIO", Resource::RLIMIT_RTPRIO),
    ("RLIMIT_RTTIME", Resource::RLIMIT_RTTIME),
    ("RLIMIT_SIGPENDING", Resource::RLIMIT_SIGPENDING),
    ("RLIMIT_STACK", Resource::RLIMIT_STACK),
];

/// All of it, to be compared. A launch waits for this: it is read from few files, each relative to an open
/// directory, and into one buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surroundings {
    values: Vec<u8>,
    /// The name of each value, and where it ends.
    ends: Vec<(&'static str, usize)>,
}

impl Surroundings {
    /// Those of this thread, which a process that it starts would inherit.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub(super) fn read() -> io::Result<Self> {
        let mut all = Self {
            values: Vec::with_capacity(4096),
            ends: Vec::with_capacity(64),
        };
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let own = openat(AT_FDCWD, "/proc/thread-self", directory, Mode::empty())?;
        let own = own.as_fd();
        let mut page = Vec::with_capacity(4096);
        read_at(own, "status", &mut page)?;
        for line in page.split(|byte| *byte == b'\n') {
            let name = STATUS.iter().find(|it| {
                let value = line.strip_prefix(it.as_bytes());
                value.is_some_and(|it| it.starts_with(b":"))
            });
            if let Some(name) = name {
                all.add(name, line);
            }
        }
        // What this kernel has not cannot have changed.
        for name in FILES {
            page.clear();
            let there = read_at(own, name, &mut page).is_ok();
            all.add_if(name, there.then_some(&page));
        }
        if !IS_WITHOUT_LABELS.load(Ordering::Relaxed) {
            all.add_labels(own);
        }
        all.add_link("root", own);
        let namespaces = openat(own, "ns", directory, Mode::empty())?;
        for name in NAMESPACES {
            all.add_link(name, namespaces.as_fd());
        }
        sys::inherited_by_threads(|name, value| all.add(name, value));
        for (name, limit) in LIMITS {
            let (soft, hard) = getrlimit(limit)?;
            all.add(name, &soft.to_ne_bytes());
            all.add(name, &hard.to_ne_bytes());
        }
        Ok(all)
    }

    fn add_labels(&mut self, own: BorrowedFd<'_>) {
        let [mut label, mut next] = [Vec::new(), Vec::new()];
        let read = (
            read_at(own, LABEL, &mut label),
            read_at(own, NEXT_LABEL, &mut next),
        );
        if read == (Err(Errno::EINVAL), Err(Errno::EINVAL)) {
            return IS_WITHOUT_LABELS.store(true, Ordering::Relaxed);
        }
        self.add_if(LABEL, read.0.is_ok().then_some(&label));
        self.add_if(NEXT_LABEL, read.1.is_ok().then_some(&next));
    }

    fn add(&mut self, name: &'static str, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.ends.push((name, self.values.len()));
    }

    /// A value that is not there is told from one that is empty.
    fn add_if(&mut self, name: &'static str, value: Option<&Vec<u8>>) {
        self.values.push(u8::from(value.is_some()));
        self.add(name, value.map_or(&[], Vec::as_slice));
    }

    fn add_link(&mut self, name: &'static str, directory: BorrowedFd<'_>) {
        let target = readlinkat(directory, name).ok();
        self.values.push(u8::from(target.is_some()));
        self.add(name, target.as_ref().map_or(&[], |it| it.as_bytes()));
    }

    #[cfg(test)]
    pub(super) fn of(name: &'static str, value: &str) -> Self {
        Self {
            values: value.as_bytes().to_vec(),
            ends: vec![(name, value.len())],
        }
    }

    /// The name of something in which they differ from others, if they do.
    pub(super) fn difference(&self, others: &Self) -> Option<&str> {
        let (mut own, mut other) = (self.iter(), others.iter());
        loop {
            match (own.next(), other.next()) {
                (None, None) => return None,
                (Some(one), Some(two)) if one == two => {}
                (Some((name, _)), Some(_)) => return Some(name),
                (None, Some(_)) | (Some(_), None) => return Some("what the kernel tells"),
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |(name, end)| {
            let value = &self.values[begin..*end];
            begin = *end;
            (*name, value)
        })
    }
}

/// Appends what a file of `/proc` has. A read that fills less than it was given is the last one.
fn read_at(directory: BorrowedFd<'_>, name: &str, to: &mut Vec<u8>) -> nix::Result<()> {
    const STEP: usize = 4096;
    let file = openat(
        directory,
        name,
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    loop {
        let length = to.len();
        to.resize(length + STEP, 0);
        let count = read(&file, &mut to[length..]);
        to.truncate(length + count.unwrap_or(0));
        if count? < STEP {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::prctl::{get_timerslack, set_timerslack};
    use nix::sys::resource::setrlimit;
    use nix::sys::stat::{Mode, umask};

    use super::*;

    #[test]
    fn what_changes_is_seen_and_named() {
        let before = Surroundings::read().unwrap();
        let changed = || {
            let now = Surroundings::read().unwrap();
            now.difference(&before).map(str::to_owned)
        };
        assert_eq!(changed(), None);
        assert!(before.ends.len() >= 40, "{:?}", before.ends);
        let mask = umask(Mode::from_bits_truncate(0o077));
        let masked = changed();
        umask(mask);
        assert_eq!(masked.as_deref(), Some("Umask"));
        let (soft, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
        setrlimit(Resource::RLIMIT_CORE, soft ^ 1, hard.max(1)).unwrap();
        let limited = changed();
        setrlimit(Resource::RLIMIT_CORE, soft, hard).unwrap();
        assert_eq!(limited.as_deref(), Some("RLIMIT_CORE"));
        let slack = get_timerslack().unwrap();
        set_timerslack(u64::try_from(slack).unwrap() + 1).unwrap();
        let slackened = changed();
        set_timerslack(u64::try_from(slack).unwrap()).unwrap();
        assert_eq!(slackened.as_deref(), Some("timer slack"));
        sys::set_io_priority(3 << 13).unwrap();
        let idle = changed();
        sys::set_io_priority(0).unwrap();
        assert_eq!(idle.as_deref(), Some("I/O priority"));
        assert_eq!(changed(), None);
    }
}
