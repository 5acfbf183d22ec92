//! The shim: the process that `Wrapper` becomes, and that a wrapped server's host knows.
//!
//! The server has the host's own streams, so nothing is copied here. The shim forwards signals,
//! climbs the ladder, and exits like the server (`docs/contain-reference.md`).

use core::ffi::CStr;

use crate::ending::{OUT_OF_MEMORY, UNPROVEN};
use crate::ladder::{Ladder, Order};
use crate::protocol::{MESSAGE_MAX, Report, Request};
use crate::stat;
use crate::sys::{self, Args, Errno, Fd, Pid, PollFd, Reaped, Signal, Signals};

/// First argument of a shim; a guardian's is a number.
pub(crate) const ROLE: &CStr = c"shim";
/// Exit code without a proof of the server's end, as for a failed wrapper.
const EXIT_UNPROVEN: i32 = 125;

struct Shim {
    guardian: Pid,
    control: Fd,
    signals: Fd,
    host: Option<Fd>,
    input: Option<Fd>,
    log: Option<Fd>,
    cgroup_kill: Option<Fd>,
    companion: Option<Fd>,
    /// Reports a SIGKILL of the server by exit code, so that the shim's own death by SIGKILL means
    /// that it was killed.
    sigkill_as_code: bool,
    /// The server has the terminal, and its own copy of what is typed.
    in_foreground: bool,
    ladder: Ladder,
}

pub(crate) fn run(args: &Args) -> ! {
    let Some(shim) = Shim::take(args) else {
        sys::exit(crate::EXIT_USAGE)
    };
    sys::set_name(c"mcp-contain");
    let _ = sys::chdir(c"/");
    shim.watch()
}

const SIGNALS_EACH_TURN: usize = 32;

impl Shim {
    fn take(args: &Args) -> Option<Self> {
        let number = |index| stat::number::<u32>(args.get(index)?.to_bytes());
        let numbers = [2, 3, 4, 7].map(number);
        // A leaked writing end of another server's input would keep that from ending.
        crate::close_inherited_but(3, numbers);
        let fd = |index: usize| sys::inherited(numbers.get(index).copied()??.cast_signed());
        // A copy of the server's output would hide its end.
        drop(sys::inherited(1));
        let time = |index| Some(u64::from(number(index)?).saturating_mul(1_000_000));
        let in_foreground = number(8).is_some_and(|flags| flags & 2 != 0);
        Some(Self {
            control: fd(0)?,
            host: fd(1),
            cgroup_kill: fd(2),
            companion: fd(3),
            guardian: Pid::new(number(6)?)?,
            sigkill_as_code: number(8).is_some_and(|flags| flags & 1 != 0),
            in_foreground,
            // A copy would hide that the server has closed it.
            input: sys::inherited(0).filter(|_| !in_foreground).and_then(|input| sys::end_of(&input).ok()),
            log: sys::inherited(2),
            signals: sys::signalfd(Signals::PASSED_ON).ok()?,
            ladder: Ladder::new(time(5)?, time(10)?),
        })
    }

    fn watch(mut self) -> ! {
        // SIGSTOP and the like stop the shim itself.
        sys::block(Signals::PASSED_ON);
        loop {
            let mut fds = [
                PollFd::readable(Some(&self.control)),
                PollFd::readable(Some(&self.signals)),
                PollFd::readable(self.host.as_ref()),
                PollFd::readable(self.input.as_ref()),
            ];
            let until = self.ladder.alarm();
            sys::poll(&mut fds, until.map(|until| until.saturating_sub(sys::now())));
            let [control, signals, host, input] = fds;
            let now = sys::now();
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

    /// Forwards signals to the server, a bounded number each turn: they must not hold up the ladder.
    fn pass_on(&mut self, now: u64) {
        for _ in 0..SIGNALS_EACH_TURN {
            let Some((signal, by_kernel)) = sys::next_signal(&self.signals) else {
                break;
            };
            match signal {
                Signal::TERM => {
                    let order = self.ladder.terminated(now);
                    self.carry_out(order, now);
                }
                // A key signals the whole group; a hang-up signals the session's first process alone.
                signal if self.in_foreground && by_kernel && signal != Signal::HUP => {}
                signal => {
                    // Like standard signals, one without room merges with those in flight.
                    let _ = self.tell(Request::Signal(signal.number()));
                    if signal == Signal::INT && !self.in_foreground {
                        self.ladder.told(now);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order, now: u64) {
        if order != Order::Nothing {
            // The guardian may have been stopped.
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
                    // No room: the guardian takes a half-close for this order.
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
                Ok(0) => self.end_without_guardian(),
                Ok(len) => len,
                Err(Errno::EAGAIN) => return,
                // Reported once, before queued reports.
                Err(Errno::ECONNRESET | Errno::ENOMEM | Errno::ENOBUFS) => continue,
                Err(_) => self.end_without_guardian(),
            };
            let report = buffer.get(..len).and_then(Report::decode);
            if let Some(Report::MainExited { .. } | Report::Gone { .. }) = report {
                // The server does not read it any more.
                self.input = None;
            }
            match report {
                Some(Report::MainExited { .. }) => self.ladder.main_exited(now),
                Some(Report::Gone { status, flags, .. }) => self.gone(status, flags),
                Some(Report::Started { .. } | Report::ExecFailed { .. } | Report::Adopted { .. }) | None => {}
            }
        }
    }

    fn gone(&self, status: i32, flags: u8) -> ! {
        if flags & OUT_OF_MEMORY != 0 {
            self.say(b"mcp-contain: the server and all that it had started were killed: they needed more memory than --memory lets them have\n");
        }
        match () {
            () if flags & UNPROVEN == 0 => self.end(status),
            () if self.companion.is_some() => self.unproven(
                b"mcp-contain: the containers of the server, or what is in its cgroup, were not ended: some may live (see `mcp-contain reap`)\n",
            ),
            () => self.unproven(b"mcp-contain: the server's cgroup cannot be emptied: something of it may live\n"),
        }
    }

    /// Exits like the server, after the proof of its end.
    fn end(&self, status: i32) -> ! {
        self.reap_guardian();
        match status & 0x7f {
            0 => sys::exit(status >> 8 & 0xff),
            signal if self.sigkill_as_code && signal == i32::from(Signal::KILL.number()) => sys::exit(128 + signal),
            signal => sys::die_by(signal),
        }
    }

    /// Reaps the guardian, which exits now. One that a debugger holds is left to process 1.
    fn reap_guardian(&self) {
        const ROUNDS: u32 = 120;
        for round in 0..ROUNDS {
            if !matches!(sys::reap_one(self.guardian), Reaped::NoneYet) {
                return;
            }
            let pause = if round < 20 { 200_000 } else { 10_000_000 };
            sys::poll(&mut [], Some(pause));
        }
    }

    /// The server died with its guardian, unless it has changed its credentials. The rest can be ended
    /// only by its cgroup.
    fn end_without_guardian(&self) -> ! {
        self.kill_cgroup();
        self.unproven(b"mcp-contain: the guardian of the server was killed: something of the server may live\n")
    }

    fn unproven(&self, line: &[u8]) -> ! {
        self.say(line);
        let _ = sys::kill(self.guardian, Signal::CONT);
        self.reap_guardian();
        sys::exit(EXIT_UNPROVEN)
    }

    fn say(&self, line: &[u8]) {
        // Only if there is room: a host that does not read must not block the wrapper.
        if let Some(log) = &self.log {
            let mut fds = [PollFd::readable(Some(log)).not_readable().or_writable(true)];
            sys::poll(&mut fds, Some(0));
            if fds[0].ready() && !fds[0].hung_up() {
                let _ = sys::write(log, line);
            }
        }
    }
}
