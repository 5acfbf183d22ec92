//! A server that its wrapper holds itself: in a process group, the level that every Unix has, or in
//! a job object.

#[cfg_attr(unix, path = "group.rs")]
#[cfg_attr(windows, path = "job.rs")]
mod held;

use std::io;
use std::time::{Duration, Instant};

use mcp_guardian::exit::ExitStatus;
use mcp_guardian::ladder::{Ladder, Order};
use mcp_lifecycle_core::TerminationPolicy;
use mcp_lifecycle_core::launch::LaunchErrorKind;

use super::{WrapError, Wrapper};
use held::Held;

impl Wrapper {
    /// Runs the server in a process group of its own, or on Windows in a job object that this
    /// process alone holds. Returns how its own process ended, once group or job is empty.
    ///
    /// Reached is what stays in the group; a job cannot be left. If this process is killed, a
    /// watcher in the group ends it: SIGTERM, the grace, SIGKILL. The kernel ends a job at once.
    ///
    /// To be called once, by a process that has nothing else to do: its standard output is given
    /// up. On Unix it has one thread; all its signals are handled, and descriptors other than the
    /// standard streams closed.
    ///
    /// # Errors
    ///
    /// No server was started; or its end is not proven, and the error says so.
    pub fn run(&self) -> Result<ExitStatus, WrapError> {
        let straggler_grace = TerminationPolicy::default().straggler_grace;
        let life = Life {
            held: Held::start(self)?,
            begun: Instant::now(),
            ladder: Ladder::new(nanos(self.grace), nanos(straggler_grace)),
            exit: None,
        };
        life.live()
            .map_err(|error| LaunchErrorKind::backend(UNPROVEN, error).into())
    }
}

fn unsupported() -> WrapError {
    let what = "what is asked of the server's containment is not there";
    LaunchErrorKind::backend(what, io::Error::from(io::ErrorKind::Unsupported)).into()
}

const UNPROVEN: &str = "the processes of the server cannot be looked at: something of it may live";

#[derive(Debug)]
enum Event {
    /// The input has ended, or the server got SIGINT.
    Told,
    /// This process got SIGTERM, or its console asks it to end.
    Asked,
    HostGone,
}

struct Life {
    held: Held,
    begun: Instant,
    ladder: Ladder,
    exit: Option<ExitStatus>,
}

impl Life {
    fn live(mut self) -> io::Result<ExitStatus> {
        loop {
            let now = nanos(self.begun.elapsed());
            if self.exit.is_none() {
                self.exit = self.held.exited()?;
                if self.exit.is_some() {
                    self.ladder.main_exited(now);
                }
            }
            if let Some(exit) = self.exit
                && self.held.is_empty()?
            {
                return Ok(exit);
            }
            let order = self.ladder.pass(now);
            self.carry_out(order);
            let due = self.ladder.alarm();
            let due = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
            let look = self.exit.and(held::LOOK);
            let limit = due.map_or(look, |due| Some(look.unwrap_or(due).min(due)));
            if let Some(event) = self.held.wait(limit)? {
                self.note(event);
            }
        }
    }

    fn note(&mut self, event: Event) {
        let now = nanos(self.begun.elapsed());
        let order = match event {
            Event::HostGone => self.ladder.host_gone(now),
            Event::Asked => self.ladder.terminated(now),
            Event::Told => {
                self.ladder.told(now);
                Order::Nothing
            }
        };
        self.carry_out(order);
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Nothing => {}
            Order::Terminate => {
                self.held.terminate();
                self.ladder.sent();
            }
            Order::Kill => self.held.kill(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
