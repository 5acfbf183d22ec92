//! The event loop: what happened, and what follows from it.

use crate::control::{Control, Received};
use crate::launch::{Outcome, Server};
use crate::protocol::{Report, Request, Stage};
use crate::sweep::Sweep;
use crate::sys::{self, Args, Errno, Fd, Nanos, Pid, PollFd, Reaped};
use crate::tree::Tree;

/// For the first signals to take effect.
const FIRST_PAUSE: Nanos = Nanos(500_000);
/// Between rounds that get somewhere: a colony that re-creates its members must not have the time to.
const BUSY_PAUSE: Nanos = Nanos(1_000_000);
/// Between rounds that get nowhere: what is left cannot be killed by us, now or ever, and that shall not cost a core.
const IDLE_PAUSE: Nanos = Nanos(100_000_000);

enum Phase {
    /// Nothing to do until something happens.
    Waiting,
    /// The server's own process is gone, others live: they have until then.
    Draining(Nanos),
    Killing(Killing),
    /// No descendant is left.
    Done,
}

struct Killing {
    /// When to look again, if not all that were reached are reaped before.
    next: Nanos,
    pause: Nanos,
    /// Reached in the last round and not reaped yet; `None` if it reached nobody.
    outstanding: Option<usize>,
    /// Something was reaped since the last round.
    progress: bool,
}

pub(crate) struct Supervisor {
    server: Server,
    control: Control,
    host: Option<Fd>,
    sweep: Sweep,
    phase: Phase,
    /// The server's own process until it is reaped.
    leader: Option<Pid>,
    /// For as long as exec's outcome is unknown: the arguments, which exec needs.
    starting: Option<Args>,
    failed: Option<(Stage, Errno)>,
    status: i32,
    /// The server's own process has, as far as is known.
    exited: bool,
    /// The init of a namespace has nothing more to say.
    heard_inside: bool,
    /// Something has been signalled, so what is reaped from now on was swept.
    sweeping: bool,
    swept: u32,
}

impl Supervisor {
    pub(crate) fn new(mut server: Server, control: Control, args: Args) -> Self {
        let Some(tree) = Tree::take() else {
            sys::exit(crate::EXIT_USAGE)
        };
        Self {
            host: server.host.take(),
            sweep: Sweep::new(tree, server.cgroup_kill.take()),
            leader: Some(server.pid),
            server,
            control,
            phase: Phase::Waiting,
            starting: Some(args),
            failed: None,
            status: 0,
            exited: false,
            heard_inside: false,
            sweeping: false,
            swept: 0,
        }
    }

    /// Runs until no descendant is left, and returns the code to exit with.
    pub(crate) fn run(mut self) -> i32 {
        sys::set_name(c"mcp-guardian");
        // Not to keep the host's directory busy.
        let _ = sys::chdir(c"/");
        loop {
            self.wait();
            self.control.flush();
            self.settle_start();
            self.reap();
            self.act();
            if matches!(self.phase, Phase::Done) && !self.control.owes() {
                return self.exit_code();
            }
        }
    }

    /// Sleeps until something happens, and hears the host.
    fn wait(&mut self) {
        let mut fds = [
            PollFd::readable(self.control.socket()).or_writable(self.control.owes()),
            PollFd::readable(self.host.as_ref()),
            PollFd::readable(Some(&self.server.children)),
            PollFd::readable(self.starting.as_ref().map(|_| &self.server.outcome)),
            PollFd::readable(self.inside()),
        ];
        let until = match &self.phase {
            Phase::Waiting | Phase::Done => None,
            Phase::Draining(deadline) => Some(*deadline),
            Phase::Killing(killing) => Some(killing.next),
        };
        sys::poll(
            &mut fds,
            until.map(|Nanos(until)| Nanos(until.saturating_sub(sys::now().0))),
        );
        let [control, host, children, _, inside] = fds;
        if children.ready() {
            // Only to make it unreadable again: one pending signal can stand for many children.
            let _ = sys::read(&self.server.children, &mut [0; 128]);
        }
        if inside.ready() {
            self.hear_inside();
        }
        if host.ready() {
            self.host = None;
            self.host_gone();
        }
        if control.ready() {
            self.hear();
        }
    }

    fn hear(&mut self) {
        loop {
            match self.control.receive() {
                Received::Request(Request::Terminate) => self.terminate(),
                Received::Request(Request::Kill) => self.kill(),
                Received::Request(Request::List) => {
                    let listing = self.sweep.list();
                    self.control.answer(listing.finish());
                }
                Received::Nothing => return,
                Received::Closed => return self.host_gone(),
            }
        }
    }

    fn host_gone(&mut self) {
        self.control.close();
        self.kill();
    }

    fn terminate(&mut self) {
        self.sweeping = true;
        self.sweep.terminate(self.leader);
    }

    /// From here on there is no way back and no giving up.
    fn kill(&mut self) {
        self.sweeping = true;
        if !matches!(self.phase, Phase::Killing(_) | Phase::Done) {
            self.phase = Phase::Killing(Killing {
                next: Nanos(0),
                pause: FIRST_PAUSE,
                outstanding: None,
                progress: true,
            });
        }
    }

    /// Reports how exec went, once that is known.
    fn settle_start(&mut self) {
        if self.starting.is_none() {
            return;
        }
        match self.server.outcome() {
            Outcome::Pending => return,
            Outcome::Executed => self.control.owe(Report::Started {
                pid: self.server.pid.get(),
            }),
            // Reported when the child has been reaped.
            Outcome::Failed(stage, errno) => self.failed = Some((stage, errno)),
        }
        if let Some(args) = self.starting.take() {
            args.release();
        }
    }

    fn reap(&mut self) {
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) => self.reaped(pid, status),
                Reaped::NoneYet => break,
                Reaped::NoChildren => return self.finish(),
            }
        }
        // Others live on. The host's ladder decides what is to become of them; if it does not, this does.
        if (self.leader.is_none() || self.exited) && matches!(self.phase, Phase::Waiting) {
            self.drain();
        }
    }

    fn drain(&mut self) {
        let grace = self.server.straggler_grace.0;
        self.phase = Phase::Draining(Nanos(sys::now().0.saturating_add(grace)));
    }

    /// The host has forgotten the stragglers. Whoever was asked to end before is not asked twice.
    fn grace_is_over(&mut self) {
        if self.sweeping {
            self.kill();
        } else {
            self.terminate();
            self.drain();
        }
    }

    fn reaped(&mut self, pid: u32, status: i32) {
        if let Phase::Killing(killing) = &mut self.phase {
            killing.progress = true;
            killing.outstanding = killing.outstanding.map(|left| left.saturating_sub(1));
        }
        if self.leader.is_some_and(|leader| leader.get() == pid) {
            // It may have executed, run and exited since the last look.
            self.settle_start();
            // In a namespace, this was its init.
            self.hear_inside();
            self.leader = None;
            self.main_exited(status);
        } else if self.sweeping {
            self.swept = self.swept.saturating_add(1);
        }
    }

    /// The server's own process has exited, or was killed with its namespace. The first word counts.
    fn main_exited(&mut self, status: i32) {
        if self.exited {
            return;
        }
        self.exited = true;
        self.status = status;
        if self.failed.is_none() {
            self.control.owe(Report::MainExited { status });
        }
    }

    /// What the init of the namespace has to say, until it has said it.
    fn inside(&self) -> Option<&Fd> {
        let namespace = self.server.namespace.as_ref();
        namespace.filter(|_| !self.heard_inside).map(|namespace| &namespace.status)
    }

    fn hear_inside(&mut self) {
        let mut status = [0; 4];
        let Some(inside) = self.inside() else { return };
        match sys::read(inside, &mut status) {
            Ok(4) => {
                // It may have executed, run and exited since the last look.
                self.settle_start();
                self.heard_inside = true;
                if self.failed.is_none() {
                    self.main_exited(i32::from_le_bytes(status));
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(_) | Err(_) => self.heard_inside = true,
        }
    }

    fn finish(&mut self) {
        if !matches!(self.phase, Phase::Done) {
            self.phase = Phase::Done;
            self.control.owe(match self.failed {
                Some((stage, errno)) => Report::ExecFailed {
                    stage,
                    errno: errno.0,
                },
                None => Report::Gone {
                    status: self.status,
                    swept: self.swept,
                },
            });
        }
    }

    /// What is due.
    fn act(&mut self) {
        if let Phase::Draining(deadline) = self.phase
            && sys::now() >= deadline
        {
            self.grace_is_over();
        }
        let Phase::Killing(killing) = &mut self.phase else {
            return;
        };
        if killing.outstanding != Some(0) && sys::now() < killing.next {
            return;
        }
        let longest = if killing.progress {
            BUSY_PAUSE
        } else {
            IDLE_PAUSE
        };
        let reached = self.sweep.kill(self.leader);
        killing.outstanding = Some(reached).filter(|&reached| reached > 0);
        killing.progress = false;
        killing.next = Nanos(sys::now().0.saturating_add(killing.pause.0));
        killing.pause = Nanos(killing.pause.0.saturating_mul(2)).min(longest);
    }

    /// The server's own, as a shell would put it. A guardian that dies by a signal was killed.
    fn exit_code(&self) -> i32 {
        match (self.failed, self.status & 0x7f) {
            (Some(_), _) => crate::EXIT_NOT_STARTED,
            (None, 0) => self.status >> 8 & 0xff,
            (None, signal) => 128 + signal,
        }
    }
}
