//! The containers of a server that was ended: whether it is known that they have gone as well.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use mcp_launcher_local::inventory::{self, HostState, KnownServer};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::containers;
use crate::show::text::printable;
use crate::show::units;

/// The longest time that a companion is waited for: less than the 15 s after which a shim gives it up.
const COMPANION_LIMIT: Duration = Duration::from_secs(14);

/// Between two looks at a companion that cannot be held.
const BRIEFLY: Duration = Duration::from_millis(50);

/// Between two looks at one that is held.
const SHORTLY: Duration = Duration::from_secs(1);

/// The processes that have to end before containers are looked for.
#[derive(Debug)]
pub(super) struct Before {
    /// The shim, the guardian and the companion, as far as they live.
    held: Result<Vec<OwnedFd>, Errno>,
    /// Nobody lived who could say which companion is its.
    may_be_any: bool,
    /// Only another user can look for its companion, and for what that has written down.
    is_anothers: bool,
}

/// Takes hold of them, before the server is ended. `None` for a server that has no companion: a program that uses the library is its host, or a shim
/// that says so. A shim that is dead says nothing, and neither does a host of which it cannot be told what it is.
pub(super) fn hold(server: &KnownServer) -> Option<Before> {
    let host = &server.host;
    let lives = host.name.is_some();
    if lives && !host.has_companion {
        return None;
    }
    let keepers: Vec<_> = keepers(server).filter_map(owner).collect();
    let companion = inventory::companion(server, containers::ROLE);
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

/// The processes whose user is that of the server's wrapper: where neither host nor guardian lives, and no ledger of this user's has the server, its own have to do.
fn keepers(server: &KnownServer) -> impl Iterator<Item = u32> {
    let host = Some(server.host.pid).filter(|_| server.host.name.is_some());
    let is_nobodys = host.is_none() && server.guardian.is_none();
    let is_nobodys = is_nobodys && server.host.state == HostState::Unknown;
    let own = server.processes.iter().map(|it| it.pid);
    let own = own.filter(move |_| is_nobodys);
    host.into_iter().chain(server.guardian).chain(own)
}

/// The user of a process; `None` if it has ended, the inner one if that cannot be told.
fn owner(pid: u32) -> Option<Option<u32>> {
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => Some(Some(process.uid())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(None),
    }
}

/// Returns whether one of these users is not this one, or that cannot be told.
fn is_anothers(users: &[Option<u32>], own: u32) -> bool {
    users.iter().any(|user| *user != Some(own))
}

/// Takes hold of a process; `None` if it has ended.
fn held(pid: u32) -> Result<Option<OwnedFd>, Errno> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(Errno::from_raw(error.raw_os_error())),
    }
}

impl Before {
    /// Why it is not known whether containers of a server live whose processes have gone.
    ///
    /// How its shim has ended is no evidence: one that was killed while it waited cannot be told from one whose server was killed. So its companion has to
    /// have ended as well, with its work done, or else what it has left is found.
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
        if !held.iter().all(|process| ends_by(process, end)) {
            return Some(format!(
                "its containers may live: what ends them has not said within {limit} that it has done so"
            ));
        }
        if let Some(why) = self.may_be_any.then(|| others_at_work(end)).flatten() {
            return Some(format!("its containers may live: {why}"));
        }
        let left = containers::look();
        if let Some(unknown) = left.unknown.first() {
            let what = printable(&unknown.what.to_string());
            return Some(format!("{what} cannot be looked at: {}", unknown.why));
        }
        (!left.containers.is_empty()).then(|| {
            format!(
                "{} of dead hosts, which may be its, can be ended by `mcp-contain reap`",
                units::count(left.containers.len(), "container", "containers")
            )
        })
    }
}

/// Waits for the companions that nobody holds any more. Returns why one of them may be at work.
fn others_at_work(end: Instant) -> Option<String> {
    loop {
        let at_work = match inventory::bereaved_companions(containers::ROLE) {
            Ok(at_work) => at_work,
            Err(error) => return Some(format!("what ends them cannot be looked for: {error}")),
        };
        let first = at_work.first()?;
        if Instant::now() >= end {
            return Some(format!(
                "process {} is at work, which ends those of a server whose shim has gone, or does not say what it is",
                first.pid
            ));
        }
        match held(first.pid) {
            // Who does not say what it is may say so soon.
            Ok(Some(companion)) => drop(ends_by(&companion, end.min(Instant::now() + SHORTLY))),
            Ok(None) => {}
            Err(_) => std::thread::sleep(BRIEFLY),
        }
    }
}

/// Waits for the end of a process.
fn ends_by(process: &OwnedFd, end: Instant) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, left) {
            Ok(ended) => return ended > 0,
            Err(Errno::EINTR) => {}
            Err(_) => return false,
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
