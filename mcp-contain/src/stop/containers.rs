//! The containers of a server that was ended: whether it is known that they have gone as well.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use mcp_launcher_local::inventory::{self, KnownServer};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::containers;
use crate::show::text::printable;
use crate::show::units;

/// The longest time that a companion is waited for: less than the 15 s after which a shim gives it up.
const COMPANION_LIMIT: Duration = Duration::from_secs(14);

/// Between two looks at a companion that cannot be held.
const BRIEFLY: Duration = Duration::from_millis(50);

/// The processes that have to end before containers are looked for.
#[derive(Debug)]
pub(super) struct Before {
    /// The shim, the guardian and the companion, as far as they live.
    held: Result<Vec<OwnedFd>, Errno>,
    /// Nobody lived who could say which companion is its.
    may_be_any: bool,
}

/// Takes hold of them, before the server is ended. `None` for a server that has no companion: a program that uses the library is its host, or a shim
/// that says so. A shim that is dead says nothing.
pub(super) fn hold(server: &KnownServer) -> Option<Before> {
    let host = &server.host;
    let lives = host.name.is_some();
    let may_have = match (lives, host.is_wrapper) {
        (true, false) => false,
        (true, true) => host.has_companion,
        (false, _) => true,
    };
    if !may_have {
        return None;
    }
    let companion = inventory::companion(server, containers::ROLE);
    let may_be_any = companion.is_err();
    let companion = companion.ok().flatten().map(|it| it.pid);
    let shim = Some(host.pid).filter(|_| lives);
    let pids = shim.into_iter().chain(server.guardian).chain(companion);
    Some(Before {
        held: pids.filter_map(|pid| held(pid).transpose()).collect(),
        may_be_any,
    })
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
                "process {}, which ends those of a server whose shim has gone, is at work",
                first.pid
            ));
        }
        match held(first.pid) {
            Ok(Some(companion)) => drop(ends_by(&companion, end)),
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
