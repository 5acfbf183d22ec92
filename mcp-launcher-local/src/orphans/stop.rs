//! Ends one server, or what is nobody's, on behalf of a person.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::inventory::see;
use super::members::{Members, Roster};
use super::unclaimed::Line;
use crate::cgroup::Leaf;
use crate::inventory::{KnownProcess, KnownServer, StopReport, Unclaimed};
use crate::sys::{self, Pid};

/// The longest time that killed processes are waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at those who have been signalled.
const BRIEFLY: Duration = Duration::from_millis(50);

/// Between two looks when nobody could be held.
const SHORTLY: Duration = Duration::from_millis(2);

/// A look that finds nobody may have been between a parent and its child.
const CLEAN_LOOKS: u32 = 2;

/// So many processes are held at a time, each by a descriptor.
const HELD: usize = 64;

type Key = (u32, u64);

/// Processes to end.
trait Target {
    /// Everybody who is to be ended now. Takes no longer than until `end` to make sure that there is nobody else.
    fn members(&mut self, end: Instant) -> Members;

    /// Returns whether a process that is held, and is the one that was seen, is still one of them.
    fn has(&self, process: &KnownProcess) -> bool;

    /// Kills as many as can be killed at once, and says whether it could.
    fn kill(&self) -> bool {
        false
    }
}

impl Target for Roster<'_> {
    fn members(&mut self, end: Instant) -> Members {
        self.look(end)
    }

    fn has(&self, process: &KnownProcess) -> bool {
        Self::has(self, process.pid)
    }

    fn kill(&self) -> bool {
        let Some(Ok(leaf)) = self.server.leaf.clone().map(Leaf::adopt) else {
            return false;
        };
        // Those inside are killed once more by what follows, which does no harm.
        if let Err(error) = leaf.kill() {
            sys::shielded(|| tracing::debug!(%error, "a cgroup cannot be killed as a whole"));
        }
        leaf.abandon();
        true
    }
}

impl Target for Line {
    fn members(&mut self, _end: Instant) -> Members {
        self.look()
    }

    fn has(&self, process: &KnownProcess) -> bool {
        self.knows(process)
    }
}

/// Ends a server.
pub(crate) fn stop(server: &KnownServer, grace: Duration) -> io::Result<StopReport> {
    let mut report = end(Roster::of(server), grace)?;
    if let Some(why) = &server.unfound {
        report.unknown.get_or_insert_with(|| why.clone());
    }
    Ok(report)
}

/// Ends what nobody claims, if that is still so.
pub(crate) fn stop_unclaimed(left: &Unclaimed, grace: Duration) -> io::Result<StopReport> {
    let still = super::unclaimed()?;
    let is_same = |it: &&Unclaimed| it.process.is_same(&left.process);
    match still.iter().find(is_same) {
        Some(still) => end(Line::of(&still.process), grace),
        None => Err(io::Error::other(
            "it has gone, or somebody uses it: it is not what it was when it was looked for",
        )),
    }
}

/// Asks, waits, kills, and waits for the end of everybody.
fn end(mut target: impl Target, grace: Duration) -> io::Result<StopReport> {
    refuse_own(&mut target)?;
    let started = Instant::now();
    let mut report = StopReport::default();
    let mut asked = BTreeSet::new();
    let ask = |held: &OwnedFd| sys::terminate_held(held);
    let mut left = signal_all(&mut target, sys::deadline(grace), &mut asked, ask);
    let mut killed = BTreeSet::new();
    if !left.are_none() {
        if target.kill() {
            killed.extend(left.known.iter().map(key));
        }
        let mut signalled = BTreeSet::new();
        left = signal_all(
            &mut target,
            sys::deadline(LIMIT),
            &mut signalled,
            sys::kill_held,
        );
        killed.extend(signalled);
    }
    (report.survivors, report.unknown) = (left.known, left.unseen);
    (report.asked, report.killed) = (asked.len(), killed.len());
    report.took = started.elapsed();
    Ok(report)
}

fn key(process: &KnownProcess) -> Key {
    (process.pid, process.start_time)
}

/// Signals everybody once, until nobody is left or it is time; who is left. One that may not be
/// signalled, or cannot be held, keeps no other one from it.
fn signal_all(
    target: &mut impl Target,
    end: Instant,
    signalled: &mut BTreeSet<Key>,
    signal: impl Fn(&OwnedFd) -> io::Result<()>,
) -> Members {
    let mut clean = 0;
    let mut has_tried = false;
    loop {
        let here = target.members(end);
        clean = if here.are_none() { clean + 1 } else { 0 };
        let left = end.saturating_duration_since(Instant::now());
        if clean >= CLEAN_LOOKS || (left.is_zero() && clean == 0 && has_tried) {
            return here;
        }
        has_tried = true;
        let mut held = Vec::new();
        for process in &here.known {
            let Ok(Some(pidfd)) = hold(target, process) else {
                continue;
            };
            // Who could not be signalled is tried again, and counts as left.
            if !signalled.contains(&key(process)) {
                match signal(&pidfd) {
                    Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {}
                    // It may be so quick as to be gone before it is also continued.
                    _ => drop(signalled.insert(key(process))),
                }
            }
            if held.len() < HELD {
                held.push(pidfd);
            }
        }
        match held.is_empty() {
            true => std::thread::sleep(SHORTLY.min(left)),
            false => sys::end_within(&mut held, BRIEFLY.min(left)),
        }
    }
}

/// Takes hold of a process, and only then makes sure that it is the one that was seen.
fn hold(target: &impl Target, process: &KnownProcess) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::new(process.pid.into()) else {
        return Ok(None);
    };
    let pidfd = match sys::hold(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_it = see(process.pid).is_some_and(|now| now.start_time == process.start_time);
    Ok((is_it && target.has(process)).then_some(pidfd))
}

/// Whoever asks must not be ended by it, nor what started it.
fn refuse_own(target: &mut impl Target) -> io::Result<()> {
    let members = target.members(Instant::now()).known;
    let mut above = Some(std::process::id());
    for _ in 0..1024 {
        let Some(pid) = above.filter(|pid| *pid > 1) else {
            return Ok(());
        };
        if members.iter().any(|member| member.pid == pid) {
            return Err(io::Error::other(format!(
                "this process was started by the server itself (process {pid}), and would end with it"
            )));
        }
        above = sys::see(pid).map(|seen| seen.parent);
    }
    Ok(())
}
