//! What a process inherits besides what a launch names.
//!
//! A guardian that was started before has what its host had then. It serves a launch only where that would be no
//! other now: a host may have raised a limit, or changed its user.

use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};

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

/// Links below `/proc/PID`.
const LINKS: &[&str] = &[
    "root",
    "ns/cgroup",
    "ns/ipc",
    "ns/mnt",
    "ns/net",
    "ns/pid_for_children",
    "ns/time_for_children",
    "ns/user",
    "ns/uts",
];

/// Files below `/proc/PID`, of a thread. Those of a security module are its label, and that of what it executes next.
const FILES: &[&str] = &[
    "cgroup",
    "oom_score_adj",
    "personality",
    "attr/current",
    "attr/exec",
];

/// Fields of `/proc/PID/stat`, from 1 (proc_pid_stat(5)).
const SCHEDULING: [(&str, usize); 3] = [
    ("nice value", 19),
    ("real-time priority", 40),
    ("scheduling policy", 41),
];

const LIMITS: [Resource; 16] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_LOCKS,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_STACK,
];

/// All of it, to be compared: each by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surroundings(Vec<(String, Option<Vec<u8>>)>);

impl Surroundings {
    /// Those of this thread, which a process that it starts would inherit.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub(super) fn read() -> io::Result<Self> {
        let own = Path::new("/proc/thread-self");
        let stat = sys::text_of(own.join("stat"))?;
        // The name is in brackets, and may have any; the third field follows it.
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let fields: Vec<&str> = fields.split(' ').collect();
        let scheduling = SCHEDULING.iter().map(|(name, number)| {
            let field = fields.get(number - 3).map(|it| it.as_bytes().to_vec());
            ((*name).to_owned(), field)
        });
        let status = sys::text_of(own.join("status"))?;
        let lines = status.lines().filter_map(|line| line.split_once(':'));
        let lines = lines.filter(|(name, _)| STATUS.contains(name));
        let lines = lines.map(|(name, value)| (name.to_owned(), Some(value.as_bytes().to_vec())));
        // What this kernel has not cannot have changed.
        let links = LINKS.iter().map(|link| {
            let target = own.join(link).read_link().ok();
            (
                (*link).to_owned(),
                target.map(|it| it.into_os_string().into_vec()),
            )
        });
        let files = FILES
            .iter()
            .map(|file| ((*file).to_owned(), sys::bytes_of(own.join(file)).ok()));
        let of_process = sys::bytes_of("/proc/self/coredump_filter").ok();
        let options = sys::inherited_by_threads();
        let options =
            options.map(|(name, value)| (name.to_owned(), Some(value.to_ne_bytes().to_vec())));
        let limit = |limit: Resource| {
            let (soft, hard) = getrlimit(limit)?;
            Ok((
                format!("{limit:?}"),
                Some(format!("{soft} {hard}").into_bytes()),
            ))
        };
        let limits: Vec<_> = LIMITS.into_iter().map(limit).collect::<io::Result<_>>()?;
        let all = scheduling.chain(lines).chain(links).chain(files);
        let all = all.chain([("coredump_filter".to_owned(), of_process)]);
        Ok(Self(all.chain(options).chain(limits).collect()))
    }

    #[cfg(test)]
    pub(super) fn of(name: &str, value: &str) -> Self {
        Self(vec![(name.to_owned(), Some(value.as_bytes().to_vec()))])
    }

    /// The name of something in which they differ from others, if they do.
    pub(super) fn difference(&self, others: &Self) -> Option<&str> {
        let mut pairs = self.0.iter().zip(&others.0);
        let different = pairs.find(|(own, other)| own != other);
        let more = || (self.0.len() != others.0.len()).then_some("what the kernel tells");
        different.map(|((name, _), _)| name.as_str()).or_else(more)
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
        assert!(before.0.len() >= 40, "{:?}", before.0);
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
