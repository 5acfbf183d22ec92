//! The event loop: receives events and carries out decisions.

use crate::abandoned::{Act, Looks};
use crate::control::{Control, Received};
use crate::course::Course;
use crate::ending::{self, Ended, Ending};
use crate::launch::{Outcome, Server};
use crate::procfs;
use crate::protocol::{Report, Request, Stage};
use crate::sweep::Sweep;
use crate::staying::Staying;
use crate::swept::Swept;
use crate::sys::{self, Args, Errno, Fd, Pid, PollFd, Reaped, Signal};
use crate::tree::Tree;

/// Pause between two looks at orphans.
const LOOKS: u64 = 5_000_000_000;

pub(crate) struct Supervisor {
    server: Server,
    control: Control,
    host: Option<Fd>,
    sweep: Sweep,
    course: Course,
    swept: Option<Swept>,
    /// The server's own process, until it is reaped.
    leader: Option<Pid>,
    /// Kept until the outcome of exec is known.
    starting: Option<Args>,
    failed: Option<(Stage, Errno)>,
    /// Wait status of the server's own process until it is reported.
    main_exit: Option<i32>,
    heard_inside: bool,
    signalled: Option<u64>,
    /// Only beside a host, which starts more than one server.
    looks: Option<Looks>,
}

impl Supervisor {
    pub(crate) fn new(mut server: Server, control: Control, args: Args) -> Self {
        let Some((tree, swept)) = Tree::take(Staying::new(server.params.keep)).zip(Swept::take()) else {
            sys::exit(crate::EXIT_USAGE)
        };
        Self {
            looks: server.params.in_foreground.then(Looks::default),
            host: server.host.take(),
            sweep: Sweep::new(tree, server.params.cgroup_kill.take()),
            leader: Some(server.pid),
            server,
            control,
            course: Course::new(),
            swept: Some(swept),
            starting: Some(args),
            failed: None,
            main_exit: None,
            heard_inside: false,
            signalled: None,
        }
    }

    /// Runs until no descendant is left, and exits, which the host waits for.
    pub(crate) fn run(mut self) -> ! {
        sys::set_name(c"mcp-guardian");
        // Do not keep the host's directory busy.
        let _ = sys::chdir(c"/");
        loop {
            self.wait();
            self.control.flush();
            self.settle_start();
            // Before reaping: an earlier kill order counts first.
            self.hear();
            self.reap();
            self.tell_main_exit();
            if self.control.is_closed() {
                // Reports are impossible: the same as no host.
                self.host_gone();
            }
            if self.course.is_done() && !self.control.owes() {
                sys::exit(self.exit_code())
            }
            self.kill_if_due();
            self.end_abandoned();
        }
    }

    fn wait(&mut self) {
        let mut fds = [
            self.control.events(),
            PollFd::readable(self.host.as_ref()),
            PollFd::readable(Some(&self.server.children)),
            PollFd::readable(self.starting.as_ref().map(|_| &self.server.outcome)),
            PollFd::readable(self.inside()),
        ];
        let until = self.course.alarm().or(self.looks.as_ref().map(|looks| looks.due));
        sys::poll(&mut fds, until.map(|until| until.saturating_sub(sys::now())));
        let [control, host, children, _, inside] = fds;
        if children.ready() {
            // Resets readiness: one pending signal can stand for many children.
            let _ = sys::read(&self.server.children, &mut [0; 128]);
        }
        if inside.ready() {
            self.hear_inside();
        }
        if control.hung_up() || host.ready() {
            // Earlier messages count first.
            self.hear();
            self.host = self.host.take().filter(|_| !host.ready());
            self.control.close();
            self.host_gone();
        }
    }

    fn host_gone(&mut self) {
        if self.course.host_gone(sys::now(), self.server.params.grace) {
            self.terminate();
        }
    }

    fn hear(&mut self) {
        loop {
            match self.control.receive() {
                Received::Request(Request::Terminate) => {
                    self.course.ask();
                    self.terminate();
                }
                Received::Request(Request::Signal(number)) => {
                    self.pass_on(Signal::new(number));
                }
                Received::Request(Request::Kill) | Received::Muted => self.course.kill(),
                Received::Gone => self.control.close(),
                Received::Nothing => return,
            }
        }
    }

    /// Sends SIGTERM, and SIGCONT for stopped processes, once to every process.
    fn terminate(&mut self) {
        const SIGNALS: [Signal; 2] = [Signal::TERM, Signal::CONT];
        // The group in one call, whose ID is reserved until its leader is reaped; not if a member may stay.
        let leader = self.leader.filter(|_| !self.sweep.tree.may_keep());
        // Read first: SIGTERM changes the tree.
        let processes = self.sweep.tree.read(self.leader);
        if let Some(leader) = leader {
            for signal in SIGNALS {
                let _ = sys::kill_group(leader, signal);
            }
        }
        let group = leader.map(Pid::get);
        // A second SIGTERM would mean "at once" to many programs.
        processes
            .iter()
            .filter(|process| !process.stays && Some(process.group) != group)
            .for_each(|process| process.signal(&SIGNALS));
    }

    /// Forwards a signal to the server's process group, or to a server that leads none. In a namespace,
    /// the leader is its init, and the group is that of init's child.
    fn pass_on(&mut self, signal: Signal) {
        let Some(leader) = self.leader else { return };
        let inside = self.server.namespace.is_some();
        let tree = &mut self.sweep.tree;
        if !inside && !tree.may_keep() {
            let _ = sys::kill_group(leader, signal).or_else(|_| sys::kill(leader, signal));
            return;
        }
        let processes = tree.read(Some(leader));
        let mut groups = processes.iter().map(|process| process.group);
        let group = match inside {
            true => groups.find(|&group| group != leader.get()),
            false => Some(leader.get()),
        };
        processes
            .iter()
            .filter(|process| !process.stays && (Some(process.group) == group || process.pid == leader.get() && !inside))
            .for_each(|process| process.signal(&[signal]));
    }

    fn settle_start(&mut self) {
        if self.starting.is_none() {
            return;
        }
        match self.server.outcome() {
            Outcome::Pending => return,
            Outcome::Executed => {
                let pid = self.server.pid.get();
                if let Some(account) = &self.server.params.record.account {
                    account.started(pid);
                }
                self.control.owe(Report::Started { pid });
            }
            // Reported when the child has been reaped.
            Outcome::Failed(stage, errno) => self.failed = Some((stage, errno)),
        }
        if let Some(args) = self.starting.take() {
            sys::release(args);
        }
    }

    fn reap(&mut self) {
        loop {
            let named = self.course.is_sweeping() || self.looks.is_some();
            let reaped = match &mut self.swept {
                Some(swept) => swept.reap(named),
                None => return,
            };
            match reaped {
                Reaped::Child(pid, status) => self.reaped(pid, status),
                Reaped::NoneYet if self.leader.is_none() && self.sweep.tree.has_only_children_that_stay() => return self.finish(),
                Reaped::NoneYet => return,
                Reaped::NoChildren => return self.finish(),
            }
        }
    }

    fn reaped(&mut self, pid: u32, status: i32) {
        self.course.reaped();
        if self.leader.is_some_and(|leader| leader.get() == pid) {
            // It may have executed and exited since the last check.
            self.settle_start();
            // In a namespace, this was its init.
            self.hear_inside();
            self.leader = None;
            self.main_exited(status);
        } else if (self.looks.as_mut().is_some_and(|looks| looks.reaped(pid)) || self.course.is_sweeping())
            && let Some(swept) = &mut self.swept
        {
            swept.count(pid);
        }
    }

    fn main_exited(&mut self, status: i32) {
        if self.course.main_exited(status) && self.failed.is_none() {
            self.main_exit = Some(status);
        }
    }

    /// Reports the exit, unless the final report follows at once and has the status, too.
    fn tell_main_exit(&mut self) {
        if let Some(status) = self.main_exit.take()
            && !self.course.is_done()
        {
            self.control.owe(Report::MainExited { status });
        }
    }

    fn inside(&self) -> Option<&Fd> {
        let namespace = self.server.namespace.as_ref();
        namespace.filter(|_| !self.heard_inside).map(|namespace| &namespace.status)
    }

    fn hear_inside(&mut self) {
        let mut status = [0; 4];
        let Some(inside) = self.inside() else { return };
        match sys::read(inside, &mut status) {
            Ok(4) => {
                // It may have executed and exited since the last check.
                self.settle_start();
                self.heard_inside = true;
                if self.failed.is_none() {
                    self.main_exited(i32::from_le_bytes(status));
                }
            }
            Err(Errno::EAGAIN) => {}
            Ok(_) | Err(_) => self.heard_inside = true,
        }
    }

    fn finish(&mut self) {
        if self.course.none_is_left()
            && let Some(swept) = self.swept.take()
        {
            // A host that is told that nothing was started cleans up itself.
            let is_left_to_host = self.failed.is_some() && !self.control.is_closed();
            let out_of_memory = self.server.params.record.is_out_of_memory();
            let may_kill = (self.server.params.record.is_alone || self.control.is_closed())
                && self.sweep.put_beside(None, self.server.params.record.cgroup());
            let emptied = is_left_to_host || self.server.params.record.end(self.sweep.cgroup_kill.as_ref().filter(|_| may_kill));
            let ending = self.ending(emptied, out_of_memory, &swept);
            let swept = swept.into_listing();
            self.server.params.record.complete(ending, swept);
            self.control.owe(match (self.failed, ending) {
                (Some((stage, errno)), _) => Report::ExecFailed {
                    stage,
                    errno: errno.0,
                },
                (None, Ending::Ended(Ended { status, flags, .. })) => Report::Gone { status, flags, swept },
                (None, Ending::NotStarted) => return,
            });
        }
    }

    fn kill_if_due(&mut self) {
        if self.course.is_sweeping() && self.signalled.is_none() {
            self.signalled = Some(sys::now());
        }
        let now = sys::now();
        self.course.pass(now);
        if self.course.is_round_due(now) {
            let reached = self.sweep.kill(self.leader, self.server.params.record.cgroup());
            self.course.round_reached(reached, sys::now());
        }
    }

    fn end_abandoned(&mut self) {
        let (now, grace, tree) = (sys::now(), self.server.params.grace, &self.sweep.tree);
        let Some(looks) = self.looks.as_mut().filter(|looks| now >= looks.due) else { return };
        looks.due = now.saturating_add(LOOKS);
        let Some(host) = self.leader.filter(|_| !self.course.is_sweeping()) else { return };
        procfs::children(tree.me, &mut |pid| {
            let Some(orphan) = Pid::new(pid).filter(|&pid| pid != host && sys::is_own_child(pid)) else { return };
            if !procfs::is_abandoned(pid, host.get(), tree.staying) {
                return;
            }
            let signals = match looks.found(pid, now, grace) {
                Act::Wait => &[][..],
                Act::Ask => &[Signal::TERM, Signal::CONT],
                Act::Kill => &[Signal::KILL],
            };
            signals.iter().for_each(|&signal| drop(sys::kill(orphan, signal)));
        });
    }

    fn ending(&self, emptied: bool, out_of_memory: bool, swept: &Swept) -> Ending {
        if self.failed.is_some() {
            return Ending::NotStarted;
        }
        const MILLISECOND: u64 = 1_000_000;
        let record = &self.server.params.record;
        // Before the companion is waited for.
        let took = self.signalled.map_or(0, |since| sys::now().saturating_sub(since) / MILLISECOND);
        let containers_absent = record.companion_is_done(self.server.params.grace);
        let [asked, forced, host_gone] = self.course.means();
        let flags = [
            (asked, ending::ASKED),
            (forced, ending::FORCED),
            (host_gone, ending::HOST_GONE),
            (!emptied || containers_absent == Some(false), ending::UNPROVEN),
            (out_of_memory, ending::OUT_OF_MEMORY),
            (emptied && record.removed().is_some(), ending::CGROUP_EMPTY),
            (containers_absent == Some(true), ending::CONTAINERS_ABSENT),
        ];
        Ending::Ended(Ended {
            flags: flags.iter().fold(0, |all, &(is_set, flag)| all | if is_set { flag } else { 0 }),
            status: self.course.status(),
            swept: swept.total(),
            at: sys::date() / MILLISECOND,
            took: took.min(u64::from(u32::MAX)) as u32,
        })
    }

    /// Returns the server's exit code in the shell's form: a guardian that dies of a signal was killed.
    fn exit_code(&self) -> i32 {
        match self.failed {
            Some(_) => crate::EXIT_NOT_STARTED,
            None => crate::exit_code(self.course.status()),
        }
    }
}
