//! Ends one server, on behalf of a person.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::inventory::{Members, is_of, members, see};
use crate::cgroup::Leaf;
use crate::inventory::{KnownProcess, KnownServer, StopReport};
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

/// Asks, waits, kills, and waits for the end of everybody.
pub(crate) fn stop(server: &KnownServer, grace: Duration) -> io::Result<StopReport> {
    refuse_own(server)?;
    let started = Instant::now();
    let mut report = StopReport::default();
    let mut asked = BTreeSet::new();
    let ask = |held: &OwnedFd| sys::terminate_held(held);
    let mut left = climb(server, started + grace, &mut asked, ask);
    let mut killed = BTreeSet::new();
    if !left.are_none() {
        if let Some(Ok(leaf)) = server.leaf.clone().map(Leaf::adopt) {
            // Those inside are killed once more by what follows, which does no harm.
            if let Err(error) = leaf.kill() {
                sys::shielded(|| tracing::debug!(%error, "a cgroup cannot be killed as a whole"));
            }
            leaf.abandon();
            killed.extend(left.known.iter().map(key));
        }
        let mut signalled = BTreeSet::new();
        left = climb(
            server,
            Instant::now() + LIMIT,
            &mut signalled,
            sys::kill_held,
        );
        killed.extend(signalled);
    }
    (report.survivors, report.unknown) = (left.known, left.unseen);
    if let Some(why) = &server.unfound {
        report.unknown.get_or_insert_with(|| why.clone());
    }
    (report.asked, report.killed) = (asked.len(), killed.len());
    report.took = started.elapsed();
    Ok(report)
}

fn key(process: &KnownProcess) -> Key {
    (process.pid, process.start_time)
}

/// Signals everybody once, until nobody is left or it is time; who is left. One that may not be
/// signalled, or cannot be held, keeps no other one from it.
fn climb(
    server: &KnownServer,
    end: Instant,
    signalled: &mut BTreeSet<Key>,
    signal: impl Fn(&OwnedFd) -> io::Result<()>,
) -> Members {
    let mut clean = 0;
    let mut has_tried = false;
    loop {
        let here = members(server);
        clean = if here.are_none() { clean + 1 } else { 0 };
        let left = end.saturating_duration_since(Instant::now());
        if clean >= CLEAN_LOOKS || (left.is_zero() && clean == 0 && has_tried) {
            return here;
        }
        has_tried = true;
        let mut held = Vec::new();
        for process in &here.known {
            let Ok(Some(pidfd)) = hold(server, process) else {
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
fn hold(server: &KnownServer, process: &KnownProcess) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::new(process.pid.into()) else {
        return Ok(None);
    };
    let pidfd = match sys::hold(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_it = see(process.pid).is_some_and(|now| now.start_time == process.start_time);
    Ok((is_it && is_of(server, process.pid)).then_some(pidfd))
}

/// Whoever asks must not be ended by it, nor what started it.
fn refuse_own(server: &KnownServer) -> io::Result<()> {
    let members = members(server).known;
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
