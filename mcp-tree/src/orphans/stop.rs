//! Ends one server, or the remains of a host without containment, on request.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::hunt::{Judge, Signalled, hunt, key};
use super::inventory::see;
use super::known::{KnownServer, StopReport, Unclaimed};
use super::members::Roster;
use super::unclaimed::Line;
use super::verdict::Process;
use crate::cgroup::Leaf;
use crate::sys;

const LIMIT: Duration = Duration::from_secs(10);

/// Ends one server, also one of another host: SIGTERM to each of its processes, and after `grace`
/// SIGKILL to those that are left, and to those that they start meanwhile. Blocks, up to ten seconds
/// longer than `grace`. Its guardian ends by itself. A host that lives may start it again.
///
/// Fails, before anything is done, if this process is one of the server's or was started by one, or
/// if the server's processes cannot be found out.
pub fn stop(server: &KnownServer, grace: Duration) -> io::Result<StopReport> {
    let mut report = end(Roster::of(server), grace, || kill_cgroup(server))?;
    if let Some(why) = &server.unfound {
        report.unknown.get_or_insert_with(|| why.clone());
    }
    Ok(report)
}

/// Ends a process that no host claims, and its descendants, as [`stop`] does, unless it has changed
/// since. A descendant with an identity of its own is left to its guardian.
///
/// That no host claims it is a guess, so this is for programs that have asked a person. Fails, before
/// anything is done, if it has gone or is in use by now, or this process was started by it.
pub fn stop_unclaimed(left: &Unclaimed, grace: Duration) -> io::Result<StopReport> {
    let still = super::unclaimed()?;
    let is_same = |it: &&Unclaimed| it.process.is_same(&left.process);
    match still.iter().find(is_same) {
        Some(still) => end(Line::of(&still.process), grace, || false),
        None => Err(io::Error::other(
            "it has ended, or is in use again: it has changed since it was listed",
        )),
    }
}

/// Asks, waits, kills, and waits. `kill_at_once` returns whether it could kill many in one step.
fn end(
    mut judge: impl Judge,
    grace: Duration,
    kill_at_once: impl FnOnce() -> bool,
) -> io::Result<StopReport> {
    refuse_own(&mut judge)?;
    let started = Instant::now();
    let mut trail = hunt(&mut judge, ask, sys::deadline(grace));
    let asked = trail.signalled.len();
    let mut killed = BTreeSet::new();
    if !trail.last.is_clean() {
        if kill_at_once() {
            killed.extend(trail.last.found.iter().map(key));
        }
        let kill = |_: &Process, pidfd: &OwnedFd| sys::kill_held(pidfd);
        trail = hunt(&mut judge, kill, sys::deadline(LIMIT));
        killed.extend(trail.signalled.into_keys());
    }
    let left = trail.last.found.iter();
    let left = left.filter_map(|it| see(it.pid).filter(|now| now.start_time == it.start_time));
    Ok(StopReport {
        asked,
        killed: killed.len(),
        survivors: left.collect(),
        unknown: trail.last.unsettled,
        took: started.elapsed(),
    })
}

fn ask(_: &Process, pidfd: &OwnedFd) -> io::Result<()> {
    match sys::terminate_held(pidfd) {
        // It can be gone before it is also continued.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        asked => asked,
    }
}

fn kill_cgroup(server: &KnownServer) -> bool {
    let Some(Ok(leaf)) = server.leaf.clone().map(Leaf::adopt) else {
        return false;
    };
    if let Err(error) = leaf.kill() {
        crate::logged!(debug, %error, "a cgroup cannot be killed as a whole");
    }
    leaf.abandon();
    true
}

/// Refuses to end this process or one of its ancestors.
fn refuse_own(judge: &mut impl Judge) -> io::Result<()> {
    let found = judge.look(&Signalled::new(), Instant::now()).found;
    let mut above = Some(std::process::id());
    for _ in 0..1024 {
        let Some(pid) = above.filter(|pid| *pid > 1) else {
            return Ok(());
        };
        if found.iter().any(|process| process.pid == pid) {
            return Err(io::Error::other(format!(
                "this process was started by the server itself (process {pid}), and would end with it"
            )));
        }
        above = sys::see(pid).map(|seen| seen.parent);
    }
    Ok(())
}
