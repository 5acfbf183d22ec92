//! The containers of a stopped server: checks whether their end is known.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use mcp_tree::inventory::{self, HostState, KnownServer};
use nix::errno::Errno;
use nix::unistd::geteuid;

use crate::containers;
use crate::operate::{ends_within, hold as by_pidfd};
use crate::show::text::one_line;
use crate::show::units;

/// Longest wait for a companion: less than the 15 s of a shim.
const COMPANION_LIMIT: Duration = Duration::from_secs(14);

/// Poll interval of a companion that cannot be held by pidfd.
const BRIEFLY: Duration = Duration::from_millis(50);

const SHORTLY: Duration = Duration::from_secs(1);

/// The processes that must end before containers are searched for.
#[derive(Debug)]
pub(super) struct Before {
    /// The living ones of shim, guardian and companion.
    held: io::Result<Vec<OwnedFd>>,
    /// No living process could tell which companion is the server's.
    may_be_any: bool,
    /// Only another user can examine its companion and records.
    is_anothers: bool,
}

/// Holds them before the server is ended. Returns `None` for a server without a companion: its host
/// is a program that uses the library, or a shim that says so. A dead shim, or a host of unknown
/// kind, proves nothing.
pub(super) fn hold(server: &KnownServer) -> Option<Before> {
    let host = &server.host;
    let lives = host.name.is_some();
    if lives && !host.has_companion {
        return None;
    }
    let keepers: Vec<_> = keepers(server).filter_map(owner).collect();
    let companion = inventory::companion(server, containers::ROLE);
    if server.in_group && matches!(companion, Ok(None)) {
        return None;
    }
    let may_be_any = companion.is_err();
    let companion = companion.ok().flatten().map(|it| it.pid);
    let shim = Some(host.pid).filter(|_| lives && host.is_wrapper);
    let pids = shim.into_iter().chain(server.guardian).chain(companion);
    Some(Before {
        held: pids.filter_map(|pid| held(pid).transpose()).collect(),
        may_be_any,
        is_anothers: is_anothers(&keepers, geteuid().as_raw()),
    })
}

/// Lists the processes of the wrapper's user. If host and guardian are dead and this user's ledgers
/// do not have the server, its own processes are used.
fn keepers(server: &KnownServer) -> impl Iterator<Item = u32> {
    let host = Some(server.host.pid).filter(|_| server.host.name.is_some());
    let is_nobodys = host.is_none() && server.guardian.is_none();
    let is_nobodys = is_nobodys && server.host.state == HostState::Unknown;
    let own = server.processes.iter().map(|it| it.pid);
    let own = own.filter(move |_| is_nobodys);
    host.into_iter().chain(server.guardian).chain(own)
}

/// Returns the user of a process; `None` if it has ended, `Some(None)` if unknown.
fn owner(pid: u32) -> Option<Option<u32>> {
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => Some(Some(process.uid())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(None),
    }
}

fn is_anothers(users: &[Option<u32>], own: u32) -> bool {
    users.iter().any(|user| *user != Some(own))
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// Holds a process by pidfd; `None` if it has ended.
fn held(pid: u32) -> io::Result<Option<OwnedFd>> {
    match by_pidfd(pid) {
        Ok(process) => Ok(Some(process)),
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Before {
    /// Returns why containers of the ended server may still live. The shim's exit status is no evidence: a shim that was killed while it waited looks like one
    /// with a killed server. So the companion must have ended, too, with its work done, or its
    /// leftovers are found.
    pub(super) fn containers_left(self) -> Option<String> {
        if self.is_anothers {
            return Some("its containers are another user's to look for".to_owned());
        }
        let end = Instant::now() + COMPANION_LIMIT;
        let limit = units::time(COMPANION_LIMIT);
        let held = match self.held {
            Ok(held) => held,
            Err(error) => return Some(format!("its shim cannot be waited for: {error}")),
        };
        if !held.iter().all(|process| ends_within(process, left(end))) {
            return Some(format!(
                "its containers may live: the process that ends them has not finished within {limit}"
            ));
        }
        if let Some(why) = self.may_be_any.then(|| others_at_work(end)).flatten() {
            return Some(format!("its containers may live: {why}"));
        }
        let (left, unknown) = containers::look();
        if let Some(unknown) = unknown.first() {
            let what = one_line(&unknown.what.to_string());
            return Some(format!("{what} cannot be looked at: {}", unknown.why));
        }
        (!left.is_empty()).then(|| {
            format!(
                "{} of dead hosts, which may be its, can be ended by `mcp-contain reap`",
                units::count(left.len(), "container", "containers")
            )
        })
    }
}

/// Waits for companions without a server. Returns why one of them may still be at work.
fn others_at_work(end: Instant) -> Option<String> {
    loop {
        let at_work = match inventory::companions_without_server(containers::ROLE) {
            Ok(at_work) => at_work,
            Err(error) => return Some(format!("what ends them cannot be looked for: {error}")),
        };
        let first = at_work.first()?;
        if Instant::now() >= end {
            return Some(format!("process {} may still be ending them", first.pid));
        }
        match held(first.pid) {
            // A process that cannot be identified yet may be so soon.
            Ok(Some(companion)) => drop(ends_within(&companion, left(end).min(SHORTLY))),
            Ok(None) => {}
            Err(_) => std::thread::sleep(BRIEFLY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_this_users_is_anothers() {
        assert!(!is_anothers(&[], 0));
        assert!(!is_anothers(&[Some(0), Some(0)], 0));
        assert!(is_anothers(&[Some(0), Some(1000)], 0));
        assert!(is_anothers(&[None], 0));
    }
}
