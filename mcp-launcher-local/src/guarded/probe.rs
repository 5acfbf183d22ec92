//! Whether there can be a guardian on this machine, found out by starting one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::guard::{self, SpawnGuardianError, SpawnRequest};

/// Why there can be no guardian, if so.
///
/// The first call starts one and waits for its end, about half a millisecond;
/// the answer holds for the life of the process. What may be better next time,
/// such as a limit that was reached, is not an answer, and is asked again.
pub(crate) fn unavailable() -> Option<&'static str> {
    static KNOWN: Mutex<Option<Option<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(answer) = *known {
        return answer;
    }
    match try_one() {
        Ok(()) => *known = Some(None),
        Err(SpawnGuardianError::Unavailable(why) | SpawnGuardianError::Refused(why)) => {
            // Once per process: it lives as long as the answer does.
            *known = Some(Some(why.to_string().leak()));
        }
        Err(SpawnGuardianError::Failed { action, source }) => {
            tracing::debug!(action, %source, "the probe for a guardian failed");
        }
    }
    known.flatten()
}

/// Starts a guardian for a server that cannot be executed, and sees it end.
fn try_one() -> Result<(), SpawnGuardianError> {
    let failed = |source| SpawnGuardianError::Failed {
        action: "the probe",
        source,
    };
    let null = File::open("/dev/null").map_err(failed)?;
    let guardian = guard::spawn(SpawnRequest {
        // A directory: nothing is ever executed.
        program: c"/",
        argv: &[],
        env: &[],
        cwd: None,
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: null.as_fd(),
        cgroup_procs: None,
        cgroup_kill: None,
        straggler_grace: Duration::ZERO,
    })?;
    let mut exit = [PollFd::new(guardian.pidfd(), PollFlags::POLLIN)];
    // It ends by itself within a millisecond; the limit is for a machine that
    // is stuck, where the answer would be no use.
    let ended = poll(&mut exit, PollTimeout::from(5_000u16));
    let reaped = guardian.try_reap();
    match (ended, reaped) {
        (Ok(1), Ok(_)) => Ok(()),
        (Ok(_), Err(error)) => Err(failed(error)),
        (Ok(_), Ok(_)) => Err(failed(io::ErrorKind::TimedOut.into())),
        (Err(errno), _) => Err(failed(errno.into())),
    }
}
