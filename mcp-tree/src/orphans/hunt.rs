//! The hunt for processes: look, hold by a pidfd, judge again, signal, until two looks find none.
//!
//! A [`Judge`] finds the processes; this module holds and signals them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::verdict::Process;
use crate::sys::{self, Pid};

/// The number of looks in a row that must find none: one look can miss a process between a parent
/// and its child.
const CLEAN_LOOKS: u32 = 2;

/// The maximum number of processes that are awaited at a time, each by a descriptor.
const HELD_MAX: usize = 64;

/// The first pause between two looks, for processes in `execve`. Later ones are longer.
const PAUSE: Duration = Duration::from_millis(2);

/// The shortest wait for signalled processes: far longer than an end takes.
const BRIEFLY: Duration = Duration::from_millis(100);

/// The longest pause, for processes that no signal ends.
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(super) type Signalled = BTreeMap<(u32, u64), Process>;

pub(super) trait Judge {
    /// Looks once. Those that were `signalled` count for as long as they live. It may wait for
    /// processes in `execve`, until `end` at most.
    fn look(&mut self, signalled: &Signalled, end: Instant) -> Look;

    /// Judges a process again, which is held now: its pid can have been reused since the look.
    fn is_still(&self, process: &Process) -> io::Result<bool>;

    /// Notes a process that could not be signalled. It is tried again if the next look finds it.
    fn refused(&mut self, _process: &Process, _error: io::Error) {}
}

#[derive(Debug, Default)]
pub(super) struct Look {
    /// The processes found, those already signalled included.
    pub(super) found: Vec<Process>,
    /// The reason why there may be more.
    pub(super) unsettled: Option<String>,
}

pub(super) struct Trail {
    pub(super) signalled: Signalled,
    pub(super) last: Look,
    /// Every process was found: the last two looks were settled and found no new one.
    pub(super) is_complete: bool,
}

impl Look {
    pub(super) fn is_clean(&self) -> bool {
        self.found.is_empty() && self.unsettled.is_none()
    }
}

/// Signals each process once, and waits until two looks in a row find none, or until the deadline.
/// At least one round is made.
pub(super) fn hunt(
    judge: &mut impl Judge,
    signal: impl Fn(&Process, &OwnedFd) -> io::Result<()>,
    deadline: Instant,
) -> Trail {
    let mut signalled = Signalled::new();
    // Looks in a row without any process, and without a new one.
    let (mut clean, mut calm) = (0, 0);
    let mut pause = PAUSE;
    loop {
        let last = judge.look(&signalled, deadline);
        let mut has_new = false;
        for process in &last.found {
            if is_among(&signalled, process) {
                continue;
            }
            has_new = true;
            let is_it = || judge.is_still(process);
            match strike(process.pid, is_it, |pidfd| signal(process, pidfd)) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    signalled.insert(key(process), process.clone());
                    pause = PAUSE;
                }
                Err(error) => judge.refused(process, error),
            }
        }
        clean = if last.is_clean() { clean + 1 } else { 0 };
        let is_calm = last.unsettled.is_none() && !has_new;
        calm = if is_calm { calm + 1 } else { 0 };
        let left = deadline.saturating_duration_since(Instant::now());
        if clean >= CLEAN_LOOKS || (left.is_zero() && clean == 0) {
            return Trail {
                signalled,
                last,
                is_complete: calm >= CLEAN_LOOKS,
            };
        }
        if clean == 1 || calm == 1 {
            continue;
        }
        let ours = last.found.iter().filter(|it| is_among(&signalled, it));
        let pids = ours.filter_map(|it| Pid::new(it.pid.into()));
        let mut held: Vec<_> = { pids.filter_map(|pid| sys::hold(pid).ok()) }
            .take(HELD_MAX)
            .collect();
        match held.is_empty() {
            true => thread::sleep(pause.min(left)),
            false => sys::end_within(&mut held, pause.max(BRIEFLY).min(left)),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Signals a process, which is held by a pidfd before `is_it` judges it. `None` if it has gone or was
/// rejected; after a failure, it may live.
pub fn strike(
    pid: u32,
    is_it: impl FnOnce() -> io::Result<bool>,
    signal: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::new(pid.into()) else {
        return Ok(None);
    };
    let struck = sys::hold(pid).and_then(|held| match is_it()? {
        true => signal(&held).map(|()| Some(held)),
        false => Ok(None),
    });
    match struck {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        struck => struck,
    }
}

/// Returns whether this is one of these processes. If it cannot be read, it has no start time.
pub(super) fn is_among(processes: &Signalled, process: &Process) -> bool {
    let mut same = processes.range((process.pid, 0)..=(process.pid, u64::MAX));
    same.any(|((_, start_time), _)| [0, *start_time].contains(&process.start_time))
}

pub(super) fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.start_time)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};

    use super::super::verdict::Mark;
    use super::*;

    /// Real children, found at all looks but the first `blind` ones, for as long as they live.
    struct Children {
        children: Vec<Child>,
        blind: u32,
        looks: u32,
        is_rejecting: bool,
        refused: u32,
    }

    impl Children {
        fn start(count: usize, blind: u32) -> Self {
            let start = |_| {
                let mut sleep = Command::new("sleep");
                // Without this process's streams: its end is waited for also where a test fails.
                let sleep = sleep.arg("1000").stdout(Stdio::null());
                sleep.stderr(Stdio::null()).spawn().unwrap()
            };
            Self {
                children: (0..count).map(start).collect(),
                blind,
                looks: 0,
                is_rejecting: false,
                refused: 0,
            }
        }

        /// Returns how many were ended by this signal.
        fn ended_by(mut self, signal: i32) -> usize {
            let children = self.children.iter_mut();
            let ended = children.filter_map(|child| child.try_wait().unwrap());
            ended.filter(|it| it.signal() == Some(signal)).count()
        }
    }

    impl Drop for Children {
        fn drop(&mut self) {
            for child in &mut self.children {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    impl Judge for Children {
        fn look(&mut self, _signalled: &Signalled, _end: Instant) -> Look {
            self.looks += 1;
            let is_blind = self.looks <= self.blind;
            let children = self.children.iter().filter(|_| !is_blind);
            let seen = children.filter_map(|child| sys::see(child.id()));
            let alive = seen.filter(|seen| seen.state != sys::ProcessState::Dead);
            Look {
                found: alive.map(process).collect(),
                unsettled: None,
            }
        }

        fn is_still(&self, _: &Process) -> io::Result<bool> {
            match self.is_rejecting {
                true => Err(io::Error::other("unknown")),
                false => Ok(true),
            }
        }

        fn refused(&mut self, _: &Process, _: io::Error) {
            self.refused += 1;
        }
    }

    fn process(seen: sys::Seen) -> Process {
        Process {
            pid: seen.pid,
            parent: seen.parent,
            start_time: seen.start_time,
            name: seen.name,
            is_guardian: false,
            stays: false,
            container: None,
            mark: Mark::None,
        }
    }

    fn kill(_: &Process, pidfd: &OwnedFd) -> io::Result<()> {
        sys::kill_held(pidfd)
    }

    /// Looks as they are written: `n`ew and `s`ettled, `u`nsettled, `c`lean. The last one is repeated.
    /// For what is found stand this process and its parent, to which no signal is sent.
    struct Script {
        looks: &'static str,
        count: usize,
        refused: Vec<Option<i32>>,
    }

    impl Script {
        fn new(looks: &'static str) -> Self {
            Self {
                looks,
                count: 0,
                refused: Vec::new(),
            }
        }
    }

    impl Judge for Script {
        fn look(&mut self, _: &Signalled, _: Instant) -> Look {
            let last = self.looks.len() - 1;
            let kind = self.looks.as_bytes()[self.count.min(last)];
            self.count += 1;
            let pids = match kind {
                b'n' => vec![std::process::id(), std::os::unix::process::parent_id()],
                _ => Vec::new(),
            };
            let seen = pids.into_iter().filter_map(sys::see);
            Look {
                found: seen.map(process).collect(),
                unsettled: (kind == b'u').then(|| "unsettled".to_owned()),
            }
        }

        fn is_still(&self, _: &Process) -> io::Result<bool> {
            Ok(true)
        }

        fn refused(&mut self, _: &Process, error: io::Error) {
            self.refused.push(error.raw_os_error());
        }
    }

    fn nothing(_: &Process, _: &OwnedFd) -> io::Result<()> {
        Ok(())
    }

    #[test]
    fn two_looks_in_a_row_must_be_clean_and_settled() {
        for (looks, count) in [("c", 2), ("nc", 3), ("ucuc", 5), ("cucc", 4), ("uucncc", 6)] {
            let mut script = Script::new(looks);
            let trail = hunt(&mut script, nothing, in_time());
            assert_eq!(script.count, count, "{looks}");
            assert!(trail.is_complete && trail.last.is_clean(), "{looks}");
            assert_eq!(trail.signalled.is_empty(), !looks.contains('n'), "{looks}");
        }
    }

    #[test]
    fn after_the_deadline_a_clean_look_is_repeated_and_no_other() {
        for (looks, count, is_complete) in [("c", 2, true), ("n", 1, false), ("cu", 2, false)] {
            let mut script = Script::new(looks);
            let trail = hunt(&mut script, nothing, Instant::now());
            assert_eq!(
                (script.count, trail.is_complete),
                (count, is_complete),
                "{looks}"
            );
            assert_eq!(trail.last.is_clean(), looks == "c", "{looks}");
            assert_eq!(trail.last.unsettled.is_some(), looks == "cu", "{looks}");
        }
    }

    /// Processes that no signal ends do not keep a processor busy.
    #[test]
    fn looks_are_paced_until_the_deadline() {
        for looks in ["n", "u"] {
            let mut script = Script::new(looks);
            let deadline = Instant::now() + Duration::from_millis(500);
            let trail = hunt(&mut script, nothing, deadline);
            assert!(
                Instant::now() >= deadline && !trail.last.is_clean(),
                "{looks}"
            );
            assert!(script.count <= 20, "{looks}: {}", script.count);
        }
    }

    #[test]
    fn a_process_that_cannot_be_signalled_is_named_unless_it_has_gone() {
        let mut script = Script::new("nc");
        let refuse = |code| move |_: &Process, _: &OwnedFd| Err(io::Error::from_raw_os_error(code));
        let trail = hunt(&mut script, refuse(libc::EMFILE), in_time());
        assert!(trail.signalled.is_empty() && trail.is_complete);
        assert_eq!(script.refused, [Some(libc::EMFILE); 2]);
        let mut script = Script::new("nc");
        hunt(&mut script, refuse(libc::EPERM), in_time());
        assert_eq!(script.refused, [Some(libc::EPERM); 2]);
        // It has gone.
        let mut script = Script::new("nc");
        let trail = hunt(&mut script, refuse(libc::ESRCH), in_time());
        assert!(trail.signalled.is_empty() && script.refused.is_empty());
    }

    #[test]
    fn only_a_process_that_is_still_it_is_struck() {
        let this = std::process::id();
        let strike = |pid, is_it| {
            let mut struck = false;
            let held = strike(
                pid,
                || Ok(is_it),
                |_| {
                    struck = true;
                    Ok(())
                },
            );
            (held.unwrap().is_some(), struck)
        };
        assert_eq!(strike(this, true), (true, true));
        assert_eq!(strike(this, false), (false, false));
        assert_eq!(strike(0, true), (false, false));
    }

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn one_clean_look_is_not_enough() {
        let mut children = Children::start(1, 1);
        let trail = hunt(&mut children, kill, in_time());
        assert!(trail.is_complete && trail.last.is_clean());
        assert_eq!(trail.signalled.len(), 1);
        assert!(children.looks >= 4, "{}", children.looks);
        assert_eq!(children.ended_by(libc::SIGKILL), 1);
    }

    #[test]
    fn more_than_can_be_held_are_signalled_and_awaited() {
        let count = HELD_MAX + 6;
        let mut children = Children::start(count, 0);
        let trail = hunt(&mut children, kill, in_time());
        assert!(trail.is_complete && trail.last.is_clean());
        assert_eq!(trail.signalled.len(), count);
        assert_eq!(children.ended_by(libc::SIGKILL), count);
    }

    #[test]
    fn rejected_processes_are_not_signalled() {
        let mut children = Children::start(2, 0);
        children.is_rejecting = true;
        let trail = hunt(&mut children, kill, Instant::now());
        assert!(!trail.is_complete && trail.signalled.is_empty());
        assert_eq!((trail.last.found.len(), children.refused), (2, 2));
        assert_eq!(children.ended_by(libc::SIGKILL), 0);
    }

    #[test]
    fn an_unreadable_process_is_recognized_by_its_pid() {
        let process = |pid, start_time| Process {
            pid,
            parent: 1,
            start_time,
            name: String::new(),
            is_guardian: false,
            stays: false,
            container: None,
            mark: Mark::None,
        };
        let known = process(7, 70);
        let signalled = Signalled::from([(key(&known), known)]);
        assert!(is_among(&signalled, &process(7, 70)) && is_among(&signalled, &process(7, 0)));
        assert!(!is_among(&signalled, &process(7, 71)) && !is_among(&signalled, &process(8, 0)));
    }
}
