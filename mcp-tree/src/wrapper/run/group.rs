//! A process group of a server.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;
use std::{io, process};

use mcp_guardian::exit::ExitStatus;
use mcp_guardian::group::Group;
use mcp_guardian::sys::{Wake, Wakes};
use mcp_lifecycle_core::launch::LaunchErrorKind;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::super::{Require, WrapError, Wrapper, no_log};
use super::{Event, unsupported};
use crate::command::{Command, new_identity, short_of};
use crate::{orphans, sys};

/// The interval of looks at what the server has left: no event tells of its end.
pub(super) const LOOK: Option<Duration> = Some(Duration::from_millis(20));

pub(super) struct Held {
    group: Group,
    wakes: Wakes,
}

impl Held {
    pub(super) fn start(wrapper: &Wrapper) -> Result<Self, WrapError> {
        let has_more =
            wrapper.is_restricted() || !wrapper.limits.is_none() || wrapper.report.is_some();
        if has_more || !wrapper.keep.is_empty() || wrapper.require > Require::Group {
            return Err(unsupported());
        }
        let kept = wrapper.companion.as_ref().map(|socket| socket.as_raw_fd());
        sys::close_all_but(kept.as_slice());
        let identity = new_identity()?;
        let command = wrapper.command(identity.as_ref())?;
        let unrecorded = wrapper.unrecorded;
        let begin = |it| orphans::WrapperLedger::begin(it, None, None, false, unrecorded);
        let ledger = identity.as_ref().map(begin).transpose();
        let ledger = ledger.map_err(|error| short_of(error, orphans::UNRECORDED))?;
        let log = wrapper.open_log().map_err(no_log)?;
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let held = Self::spawn(&command, log, wrapper.grace).inspect_err(|_| {
            let _ = before.and_then(|before| before.thread_set_mask());
        })?;
        if let Some(mut ledger) = ledger.flatten() {
            let leader = held.group.leader();
            ledger.started(leader.as_u32(), sys::start_time(leader), true);
            // What has left the group is found by its mark. The file stays with this process.
            ledger.leave();
        }
        let _ = SigSet::all().thread_unblock();
        Ok(held)
    }

    fn spawn(
        command: &Command,
        log: Option<File>,
        grace: Duration,
    ) -> Result<Self, LaunchErrorKind> {
        let failed = |error| short_of(error, "the server could not be watched");
        // A copy of its output here would hide its end.
        let null = File::options().write(true).open("/dev/null");
        let null = null.map_err(failed)?;
        let mut server = process::Command::new(&command.program);
        server.arg0(&command.arg0).args(&command.args);
        server.env_clear().envs(&command.env);
        if let Some(log) = log {
            server.stderr(log);
        }
        let group = Group::start(&mut server, grace);
        let group = group.map_err(|error| command.explain(error))?;
        nix::unistd::dup2_stdout(null).map_err(|error| failed(error.into()))?;
        let _ = nix::unistd::chdir("/");
        let wakes = Wakes::new().map_err(failed)?;
        Ok(Self { group, wakes })
    }

    pub(super) fn exited(&self) -> io::Result<Option<ExitStatus>> {
        self.group.exited()
    }

    pub(super) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.group.members()?.is_empty())
    }

    pub(super) fn terminate(&self) {
        self.group.terminate();
    }

    pub(super) fn kill(&self) {
        self.group.signal(libc::SIGKILL);
    }

    /// Waits for an event. Signals that mean nothing here are passed on.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<Option<Event>> {
        Ok(match self.wakes.wait(limit)? {
            Some(Wake::HostGone) => Some(Event::HostGone),
            Some(Wake::InputEnded) => Some(Event::Told),
            Some(Wake::Signal(libc::SIGTERM)) => Some(Event::Asked),
            // The first is of the server, and the second of this process's own limits.
            None | Some(Wake::Signal(libc::SIGCHLD | libc::SIGXFSZ)) => None,
            Some(Wake::Signal(number)) => {
                self.group.signal(number);
                (number == libc::SIGINT).then_some(Event::Told)
            }
        })
    }
}
