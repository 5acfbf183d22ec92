//! A server in a process group: the level that every Unix has.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process;
use std::time::{Duration, Instant};

use mcp_guardian::exit::ExitStatus;
use mcp_guardian::group::Group;
use mcp_guardian::ladder::{Ladder, Order};
use mcp_guardian::sys::{Wake, Wakes};
use mcp_lifecycle_core::TerminationPolicy;
use mcp_lifecycle_core::launch::LaunchErrorKind;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::{Require, WrapError, Wrapper, no_log};
use crate::command::{Command, new_identity, short_of};
use crate::{orphans, sys};

impl Wrapper {
    /// Runs the server in a process group of its own. Returns how its own process ended, once the
    /// group is empty.
    ///
    /// Reached is what stays in the group. If this process is killed, a watcher in the group ends
    /// it: SIGTERM, the grace, SIGKILL.
    ///
    /// To be called once, by a process with one thread that has nothing else to do: its standard
    /// output is given up, and it handles all signals. Descriptors other than the standard streams
    /// are closed.
    ///
    /// # Errors
    ///
    /// No server was started; or the end of the group is not proven, and the error says so.
    pub fn run_in_group(&self) -> Result<ExitStatus, WrapError> {
        let has_more = self.memory.is_some() || !self.keep.is_empty() || self.report.is_some();
        if has_more || self.require > Require::Group {
            let what = "a process group is not enough for what is asked of its containment";
            return Err(LaunchErrorKind::backend(
                what,
                io::Error::from(io::ErrorKind::Unsupported),
            )
            .into());
        }
        let kept = self.companion.as_ref().map(|socket| socket.as_raw_fd());
        sys::close_all_but(kept.as_slice());
        let identity = new_identity()?;
        let command = self.command(identity.as_ref())?;
        if let Some(identity) = &identity {
            // What has left the group is found by its mark.
            orphans::register_alone(identity)
                .map_err(|error| short_of(error, orphans::UNRECORDED))?;
        }
        let log = self.open_log().map_err(no_log)?;
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let life = self.start(&command, log).inspect_err(|_| {
            let _ = before.and_then(|before| before.thread_set_mask());
        })?;
        let _ = SigSet::all().thread_unblock();
        life.live()
            .map_err(|error| LaunchErrorKind::backend(UNPROVEN, error).into())
    }

    fn start(&self, command: &Command, log: Option<File>) -> Result<Life, LaunchErrorKind> {
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
        let group = Group::start(&mut server, self.grace);
        let group = group.map_err(|error| command.explain(error))?;
        nix::unistd::dup2_stdout(null).map_err(|error| failed(error.into()))?;
        let _ = nix::unistd::chdir("/");
        let straggler_grace = TerminationPolicy::default().straggler_grace;
        Ok(Life {
            group,
            wakes: Wakes::new().map_err(failed)?,
            begun: Instant::now(),
            ladder: Ladder::new(nanos(self.grace), nanos(straggler_grace)),
            exit: None,
        })
    }
}

const UNPROVEN: &str = "the processes of the server cannot be looked at: something of it may live";

/// The interval of looks at what the server has left: no event tells of its end.
const LOOK: Duration = Duration::from_millis(20);

struct Life {
    group: Group,
    wakes: Wakes,
    begun: Instant,
    ladder: Ladder,
    exit: Option<ExitStatus>,
}

impl Life {
    fn live(mut self) -> io::Result<ExitStatus> {
        loop {
            let now = nanos(self.begun.elapsed());
            if self.exit.is_none() {
                self.exit = self.group.exited()?;
                if self.exit.is_some() {
                    self.ladder.main_exited(now);
                }
            }
            if let Some(exit) = self.exit
                && self.group.members()?.is_empty()
            {
                return Ok(exit);
            }
            let order = self.ladder.pass(now);
            self.carry_out(order);
            let due = self.ladder.alarm();
            let due = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
            let look = self.exit.map(|_| LOOK);
            let limit = due.map_or(look, |due| Some(look.unwrap_or(due).min(due)));
            if let Some(wake) = self.wakes.wait(limit)? {
                self.note(wake);
            }
        }
    }

    fn note(&mut self, wake: Wake) {
        let now = nanos(self.begun.elapsed());
        let order = match wake {
            Wake::HostGone => self.ladder.host_gone(now),
            Wake::Signal(libc::SIGTERM) => self.ladder.terminated(now),
            Wake::InputEnded => {
                self.ladder.told(now);
                Order::Nothing
            }
            // The first is of the server, and the second of this process's own limits.
            Wake::Signal(libc::SIGCHLD | libc::SIGXFSZ) => Order::Nothing,
            Wake::Signal(number) => {
                self.group.signal(number);
                if number == libc::SIGINT {
                    self.ladder.told(now);
                }
                Order::Nothing
            }
        };
        self.carry_out(order);
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Nothing => {}
            Order::Terminate => {
                self.group.terminate();
                self.ladder.sent();
            }
            Order::Kill => self.group.signal(libc::SIGKILL),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
