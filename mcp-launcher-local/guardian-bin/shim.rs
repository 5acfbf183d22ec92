//! The shim: the process that a wrapped server's host knows, once `Wrapper` has become it.
//!
//! The server has the host's own streams, so nothing is copied here. The shim is told of the end of the server's input, of the host's end, of signals
//! and of the guardian's reports, passes on what is to be passed on, and ends as the server has. `docs/contain.md` has the tables.

use core::ffi::CStr;

use crate::ladder::{Ladder, Order};
use crate::params::number;
use crate::protocol::{COMPANION_DONE, MESSAGE_MAX, Report, Request, SERVER_GONE};
use crate::sys::{self, Args, Errno, Fd, Nanos, Pid, PollFd, Reaped, Signal, Signals};

/// The first argument of a shim, where that of a guardian is a number.
pub(crate) const ROLE: &CStr = c"shim";
/// Exit code where the end of the server could not be proven: that of a wrapper that failed.
const EXIT_UNPROVEN: i32 = 125;
/// The time that the companion has beyond the grace: what it has asked to end is then ended by force.
const COMPANION_LIMIT: u64 = 15_000_000_000;

struct Shim {
    guardian: Pid,
    control: Fd,
    signals: Fd,
    /// Readable when the host has exited.
    host: Option<Fd>,
    /// A copy of the server's input, never read.
    input: Option<Fd>,
    /// The host's log, for a line where there is no proof, or no memory.
    log: Option<Fd>,
    cgroup_kill: Option<Fd>,
    /// The socket to a process that ends what is no descendant of the server.
    companion: Option<Fd>,
    grace: u64,
    /// A server that died of SIGKILL is told by an exit code: who dies of it was killed then, and has no proof.
    sigkill_as_code: bool,
    ladder: Ladder,
}

/// Becomes the shim that the arguments say.
pub(crate) fn run(args: &Args) -> ! {
    let Some(shim) = Shim::take(args) else {
        sys::exit(crate::EXIT_USAGE)
    };
    sys::set_name(c"mcp-contain");
    let _ = sys::chdir(c"/");
    shim.watch()
}

impl Shim {
    /// Takes over what the wrapper has passed.
    fn take(args: &Args) -> Option<Self> {
        let numbers = [2, 3, 4, 7].map(|index| args.get(index).and_then(number));
        // Whatever else the host has leaked is closed: a writing end of another server's input would keep that from ending.
        crate::close_inherited_but(3, numbers);
        let fd = |index: usize| sys::inherited(numbers.get(index).copied()??.cast_signed());
        // Its output is the server's alone: a copy here would hide its end.
        drop(sys::inherited(1));
        let grace = u64::from(number(args.get(5)?)?).saturating_mul(1_000_000);
        Some(Self {
            control: fd(0)?,
            host: fd(1),
            cgroup_kill: fd(2),
            companion: fd(3),
            grace,
            guardian: Pid::new(number(args.get(6)?)?)?,
            sigkill_as_code: args.get(8).and_then(number) == Some(1),
            input: sys::inherited(0),
            log: sys::inherited(2),
            signals: sys::signalfd(Signals::PASSED_ON).ok()?,
            ladder: Ladder::new(grace),
        })
    }

    fn watch(mut self) -> ! {
        // Who stops the shim stops the shim.
        sys::block(Signals::PASSED_ON);
        loop {
            let mut fds = [
                PollFd::readable(Some(&self.control)),
                PollFd::readable(Some(&self.signals)),
                PollFd::readable(self.host.as_ref()),
                PollFd::ended(self.input.as_ref()),
            ];
            let until = self.ladder.alarm();
            sys::poll(
                &mut fds,
                until.map(|until| Nanos(until.saturating_sub(sys::now().0))),
            );
            let [control, signals, host, input] = fds;
            let now = sys::now().0;
            if signals.ready() {
                self.pass_on(now);
            }
            if input.ready() {
                self.input = None;
                self.ladder.told(now);
            }
            if host.ready() {
                self.host = None;
                let order = self.ladder.host_gone(now);
                self.carry_out(order, now);
            }
            let order = self.ladder.pass(now);
            self.carry_out(order, now);
            if control.ready() {
                self.hear(now);
            }
        }
    }

    /// What was sent to the shim is meant for the server.
    fn pass_on(&mut self, now: u64) {
        while let Some(signal) = sys::next_signal(&self.signals) {
            match signal {
                Signal::TERM => {
                    let order = self.ladder.terminated(now);
                    self.carry_out(order, now);
                }
                signal => {
                    // As signals are: one that finds no room is one of those that are under way.
                    let _ = self.tell(Request::Signal(signal.number()));
                    if signal == Signal::INT {
                        self.ladder.told(now);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order, now: u64) {
        if order != Order::Nothing {
            // Somebody may have stopped it.
            let _ = sys::kill(self.guardian, Signal::CONT);
        }
        match order {
            Order::Nothing => {}
            Order::Terminate => match self.tell(Request::Terminate) {
                Ok(_) => self.ladder.sent(),
                Err(_) => self.ladder.refused(now),
            },
            Order::Kill => {
                if self.tell(Request::Kill).is_err() {
                    // No room for it: the guardian takes the end of what is said for this order.
                    sys::shutdown_sending(&self.control);
                }
                self.kill_cgroup();
            }
        }
    }

    fn tell(&self, request: Request) -> sys::Result<usize> {
        sys::send(&self.control, &request.encode())
    }

    fn kill_cgroup(&self) {
        if let Some(kill) = &self.cgroup_kill {
            let _ = sys::write(kill, b"1");
        }
    }

    fn hear(&mut self, now: u64) {
        let mut buffer = [0; MESSAGE_MAX];
        loop {
            let len = match sys::recv(&self.control, &mut buffer) {
                Ok(0) => self.bereaved(),
                Ok(len) => len,
                Err(Errno::EAGAIN) => return,
                // Said once, and before the reports that are still queued.
                Err(Errno::ECONNRESET | Errno::ENOMEM | Errno::ENOBUFS) => continue,
                Err(_) => self.bereaved(),
            };
            let report = buffer.get(..len).and_then(Report::decode);
            if let Some(Report::MainExited { .. } | Report::Gone { .. } | Report::Unproven { .. }) = report {
                // Nobody reads it any more.
                self.input = None;
            }
            match report {
                Some(Report::MainExited { .. }) => self.ladder.main_exited(now),
                Some(Report::OutOfMemory) => {
                    self.say(b"mcp-contain: the server and all that it had started were killed: they needed more memory than --memory lets them have\n");
                }
                Some(Report::Gone { status, .. }) if self.companion_is_done() => self.end(status),
                Some(Report::Gone { .. }) => self.unproven(
                    b"mcp-contain: what ends the containers of the server did not do so: some may live (see `mcp-contain reap`)\n",
                ),
                Some(Report::Unproven { .. }) => self.unproven(
                    b"mcp-contain: the server's cgroup cannot be emptied: something of it may live\n",
                ),
                Some(Report::Started { .. } | Report::ExecFailed { .. } | Report::Adopted { .. }) | None => {}
            }
        }
    }

    /// Tells the companion that nothing of the server is left, and waits for its word that nothing of what it looks after is. What was killed says none.
    fn companion_is_done(&self) -> bool {
        let Some(companion) = &self.companion else {
            return true;
        };
        let _ = sys::send(companion, &[SERVER_GONE]);
        let until = sys::now().0.saturating_add(self.grace).saturating_add(COMPANION_LIMIT);
        loop {
            let mut word = [0];
            match sys::recv(companion, &mut word) {
                Ok(len) => return len == 1 && word == [COMPANION_DONE],
                Err(Errno::EAGAIN) => {}
                Err(_) => return false,
            }
            let now = sys::now().0;
            if now >= until {
                return false;
            }
            let mut fds = [PollFd::readable(Some(companion))];
            sys::poll(&mut fds, Some(Nanos(until - now)));
        }
    }

    /// The proof is there: ends as the server has.
    fn end(&self, status: i32) -> ! {
        self.reap_guardian();
        match status & 0x7f {
            0 => sys::exit(status >> 8 & 0xff),
            signal if self.sigkill_as_code && signal == i32::from(Signal::KILL.number()) => sys::exit(128 + signal),
            signal => sys::die_by(signal),
        }
    }

    /// It has said its last word and exits, or was killed. One that somebody holds is left to who reaps orphans.
    fn reap_guardian(&self) {
        const ROUNDS: u32 = 120;
        for round in 0..ROUNDS {
            if !matches!(sys::reap_one(self.guardian), Reaped::NoneYet) {
                return;
            }
            let pause = if round < 20 { 200_000 } else { 10_000_000 };
            sys::poll(&mut [], Some(Nanos(pause)));
        }
    }

    /// The guardian was killed, and the server with it, unless it has changed its credentials. The rest can be ended by its cgroup alone.
    fn bereaved(&self) -> ! {
        self.kill_cgroup();
        self.unproven(b"mcp-contain: the guardian of the server was killed: something of the server may live\n")
    }

    fn unproven(&self, line: &[u8]) -> ! {
        self.say(line);
        let _ = sys::kill(self.guardian, Signal::CONT);
        self.reap_guardian();
        sys::exit(EXIT_UNPROVEN)
    }

    /// Says a line on standard error.
    fn say(&self, line: &[u8]) {
        // Only where there is room now: a host that reads nothing must not keep its wrapper.
        if let Some(log) = &self.log {
            let mut fds = [PollFd::readable(Some(log)).not_readable().or_writable(true)];
            sys::poll(&mut fds, Some(Nanos(0)));
            if fds[0].ready() && !fds[0].hung_up() {
                let _ = sys::write(log, line);
            }
        }
    }
}
