//! Waits for descriptors, signals and deadlines, and moves bytes between descriptors and buffers.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{POLLRDHUP, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG, SIGXFSZ};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::time::{ClockId, clock_gettime};

use super::Edge;
use super::server::Server;
use super::stream::{LINE_MAX, Lines, ROOM, is_patience};
use crate::lazy::decision::events::Event;
use crate::watch::Watch;

const LADDER: Duration = Duration::from_secs(3);

/// The shortest suspend that counts.
const SUSPEND: Duration = Duration::from_secs(2);

/// Returns all signals but those that stop and continue a relay, and that of an output without readers.
pub(crate) fn signals() -> SigSet {
    use Signal::{SIGCONT, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};
    let others = [SIGCONT, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU];
    let mut signals = SigSet::all();
    others.into_iter().for_each(|signal| signals.remove(signal));
    signals
}

/// Returns how long the machine was suspended since it was started.
pub(super) fn suspended() -> Duration {
    let [all, awake] = [ClockId::CLOCK_BOOTTIME, ClockId::CLOCK_MONOTONIC]
        .map(|clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from));
    all.saturating_sub(awake)
}

/// A peer that has shut down its writing side; `nix` lacks this flag.
fn half_close() -> PollFlags {
    PollFlags::from_bits_retain(POLLRDHUP)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Signals,
    Host,
    Watch,
    Input,
    Output,
    ServerInput,
    ServerOutput,
}

impl Edge {
    pub(super) fn wait(&self) -> io::Result<Vec<(Of, PollFlags)>> {
        let mut what = vec![(Of::Signals, self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(host) = &self.host {
            what.push((Of::Host, host.as_fd(), PollFlags::POLLIN));
        }
        let watch = self.watch.iter().map(|watch| watch.inotify.as_fd());
        what.extend(watch.map(|fd| (Of::Watch, fd, PollFlags::POLLIN)));
        if let Some(input) = &self.input {
            if self.has_room() {
                what.push((Of::Input, input.as_fd(), PollFlags::POLLIN));
            } else if self.hung_up.is_none() {
                // Its end must be noticed although it is not read.
                what.push((Of::Input, input.as_fd(), half_close()));
            }
        }
        if let Some(output) = &self.output {
            let writes = if self.to_host.is_empty() {
                PollFlags::empty()
            } else {
                PollFlags::POLLOUT
            };
            what.push((Of::Output, output.as_fd(), writes));
        }
        if let Some(server) = &self.server {
            if let Some(input) = server.input.as_ref().filter(|_| !server.to_it.is_empty()) {
                what.push((Of::ServerInput, input.as_fd(), PollFlags::POLLOUT));
            }
            let is_wanted = server.is_muted || self.to_host.len() < ROOM;
            if let Some(output) = server.output.as_ref().filter(|_| is_wanted) {
                what.push((Of::ServerOutput, output.as_fd(), PollFlags::POLLIN));
            }
        }
        let mut fds: Vec<_> = what
            .iter()
            .map(|(_, fd, flags)| PollFd::new(*fd, *flags))
            .collect();
        match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = what.iter().zip(&fds).filter_map(|((of, ..), fd)| {
            let flags = fd.revents().unwrap_or(half_close());
            let flags = Some(flags).filter(|flags| !flags.is_empty())?;
            Some((*of, flags))
        });
        Ok(ready.collect())
    }

    fn timeout(&self) -> PollTimeout {
        let server = self.server.as_ref();
        let overdue = server.and_then(|server| server.overdue).map(|(at, _)| at);
        let lingers = server.filter(|server| server.output.is_some());
        let lingers = lingers.and_then(|server| server.lingers);
        let is_muted = server.is_some_and(|server| server.is_muted);
        let all = [
            self.relay.deadline(),
            overdue,
            lingers,
            self.hung_up,
            self.flush.filter(|_| !is_muted),
        ];
        let Some(next) = all.into_iter().flatten().min() else {
            return PollTimeout::NONE;
        };
        // Rounded up, or it would wake early and poll repeatedly.
        let wait = next
            .saturating_sub(self.now())
            .as_nanos()
            .div_ceil(1_000_000);
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
    }

    pub(super) fn serve(&mut self, ready: Vec<(Of, PollFlags)>) {
        let before = std::mem::replace(&mut self.suspended, suspended());
        if self.suspended > before.saturating_add(SUSPEND) {
            self.decide(Event::Resumed);
        }
        for (of, flags) in ready {
            match of {
                Of::Signals => self.read_signals(),
                Of::Host => {
                    self.host = None;
                    self.deaf_host();
                    self.asked_to_end(SIGTERM);
                }
                Of::Watch if !self.watch.as_mut().is_some_and(Watch::has_changed) => {}
                Of::Watch => self.decide(Event::Changed),
                Of::Input if self.has_room() => self.read_host(),
                Of::Input => self.hung_up = Some(self.grace_end()),
                Of::Output if flags.contains(PollFlags::POLLOUT) => self.write_host(),
                Of::Output => self.deaf_host(),
                Of::ServerInput => self.write_server(),
                Of::ServerOutput => {
                    self.read_server();
                }
            }
        }
        let now = self.now();
        let has_hung_up = self.input.is_none() || self.hung_up.is_some();
        if has_hung_up && self.server.as_mut().is_some_and(Server::has_read) {
            self.decide(Event::Progress);
            self.hung_up = self.hung_up.map(|_| self.grace_end());
        }
        if self.hung_up.is_some_and(|at| at <= now) {
            self.hung_up = None;
            self.lose_input();
        }
        if let Some(server) = &mut self.server {
            server.force(now, self.policy.grace);
            let is_over = server.lingers.is_some_and(|at| at <= now);
            if server.ended.is_some() {
                self.drain();
            }
            if let Some(server) = self.server.as_mut().filter(|_| is_over) {
                // A process that is never ended keeps it open.
                server.output = None;
            }
        }
        self.decide(Event::Time);
    }

    /// Drops unwritable input: nothing was read for a grace.
    fn lose_input(&mut self) {
        let input = self.input.take();
        let buffer = std::mem::take(&mut self.from_host).buffer;
        self.has_lost |= !buffer.is_empty() || input.is_some_and(|input| input.unread() > 0);
    }

    fn drain(&mut self) {
        let is_open = |edge: &Self| {
            edge.server.as_ref().is_some_and(|server| {
                server.output.is_some() && server.from_it.buffer.len() < LINE_MAX
            })
        };
        while is_open(self) && self.read_server() {}
    }

    fn read_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = i32::try_from(signal.ssi_signo).unwrap_or_default();
            match number {
                SIGCHLD => {
                    // The ladder of a guardian with a killed shim.
                    let ladder = self.policy.grace.saturating_mul(2).saturating_add(LADDER);
                    let until = self.now().saturating_add(ladder);
                    if let Some(server) = &mut self.server {
                        server.check(until);
                        if server.ended.is_some() {
                            self.decide(Event::Exited);
                        }
                    }
                }
                SIGURG => self.decide(Event::Restart),
                SIGHUP | SIGINT | SIGQUIT | SIGTERM => self.asked_to_end(number),
                // This process's own limit.
                SIGXFSZ => {}
                _ => self.server.iter().for_each(|it| it.signal(number)),
            }
        }
    }

    fn asked_to_end(&mut self, signal: i32) {
        match &self.server {
            Some(server) => server.signal(signal),
            None => self.killed = self.killed.or(Some(signal)),
        }
        self.decide(Event::Leave);
    }

    fn read_host(&mut self) {
        let Some(input) = &mut self.input else { return };
        match input.read(self.from_host.buffer.room()) {
            Ok(0) => self.input = None,
            Err(error) if !is_patience(&error) => self.input = None,
            Ok(_) | Err(_) => {}
        }
    }

    fn read_server(&mut self) -> bool {
        let (now, grace) = (self.now(), self.policy.grace);
        let Some(server) = &mut self.server else {
            return false;
        };
        let Some(output) = &mut server.output else {
            return false;
        };
        match output.read(server.from_it.buffer.room()) {
            Ok(1..) => {
                if server.is_muted {
                    server.from_it = Lines::default();
                }
                true
            }
            // Another process has it open.
            Err(error) if is_patience(&error) => false,
            Ok(_) | Err(_) => {
                server.output = None;
                server.is_silent = true;
                // A server without output is useless.
                server.close(now, grace);
                false
            }
        }
    }

    fn write_server(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        if server.write().is_err_and(|error| !is_patience(&error)) {
            server.to_it.clear();
            server.input = None;
            if server.ended.is_none() {
                self.decide(Event::InputClosed);
            }
        }
    }

    fn write_host(&mut self) {
        let Some(output) = &mut self.output else {
            return;
        };
        match output.write(self.to_host.bytes()) {
            Ok(len) => {
                self.to_host.consume(len);
                // It reads, so its time is extended.
                let until = self.now().saturating_add(self.patience());
                self.flush = self.flush.map(|_| until);
                self.hung_up = self.hung_up.map(|_| self.grace_end());
            }
            Err(error) if is_patience(&error) => {}
            Err(_) => self.deaf_host(),
        }
    }

    fn deaf_host(&mut self) {
        self.output = None;
        self.input = None;
        self.from_host = Lines::default();
    }
}
