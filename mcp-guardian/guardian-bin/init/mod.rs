//! The supervised init: process 1 of a container, which ends the server when the host is gone.
//!
//! `mcp-init [--gate] GRACE-MS PROGRAM ARGS...` runs the program as its child, forwards signals,
//! reaps orphans, and exits as the program does; the kernel then kills the rest. When the other end
//! of stdin is closed, the server has the grace to exit by itself, then everything in the container
//! gets SIGTERM, and after another grace process 1 exits. With `--gate` the program is started by a
//! command on stdin ([`gate`]), and SIGTERM goes to everything. `--last-will`: see [`will`].

mod answers;
mod gate;
mod will;

use core::ffi::CStr;

use crate::ladder::{Ladder, Order};
use crate::stat::number;
use crate::sys::{self, Args, Fd, Fork, Pid, PollFd, Reaped, Signal, Signals};

/// Exit code after SIGKILL, as seen from outside.
const EXIT_KILLED: i32 = 128 + 9;

const GATE: &CStr = c"--gate";
const LAST_WILL: &CStr = c"--last-will";

const PATH_MAX: usize = 4096;
/// Search path without PATH, as in execvp.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn run(args: &Args) -> ! {
    if args.get(1) == Some(LAST_WILL) {
        will::run(args)
    }
    let gated = args.get(1) == Some(GATE);
    let at = 1 + usize::from(gated);
    let program = at + 1;
    let Some(grace) = time(args, at).filter(|_| args.get(program).is_some()) else {
        sys::exit(crate::EXIT_USAGE)
    };
    // Blocked signals are not ignored, even by process 1, so that the descriptor receives them.
    sys::block(Signals::ALL);
    let Ok(signals) = sys::signalfd(Signals::ALL) else {
        sys::exit(crate::EXIT_USAGE)
    };
    if gated {
        gate::wait(&signals);
    }
    match sys::fork() {
        Ok(Fork::Child) => execute(args, program),
        Ok(Fork::Parent(server)) => supervise(server, &signals, grace, gated),
        Err(_) => sys::exit(crate::EXIT_USAGE),
    }
}

fn time(args: &Args, index: usize) -> Option<u64> {
    number::<u64>(args.get(index)?.to_bytes())?.checked_mul(1_000_000)
}

/// Executes the server in the child, by its path or from the search path.
fn execute(args: &Args, index: usize) -> ! {
    sys::block(Signals::NONE);
    let program = args.get(index).unwrap_or_default();
    if program.to_bytes().contains(&b'/') {
        let _ = sys::exec(program, args, index);
    } else {
        let path = args.variable(b"PATH=").unwrap_or(DEFAULT_PATH);
        for directory in path.split(|&byte| byte == b':') {
            let mut path = [0; PATH_MAX];
            let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            let parts = directory.iter().chain(slash).chain(program.to_bytes());
            if parts.clone().count() < PATH_MAX {
                path.iter_mut().zip(parts).for_each(|(to, &byte)| *to = byte);
                let _ = sys::exec(CStr::from_bytes_until_nul(&path).unwrap_or_default(), args, index);
            }
        }
    }
    for part in [&b"mcp-init: cannot run "[..], program.to_bytes(), b"\n"] {
        let _ = sys::write(&sys::STDERR, part);
    }
    sys::exit(crate::EXIT_NOT_STARTED)
}

/// With `all`, SIGTERM goes to everything and begins the grace.
fn supervise(server: Pid, signals: &Fd, grace: u64, all: bool) -> ! {
    // Only the server holds its outputs, so that their end is seen outside.
    sys::close(1);
    sys::close(2);
    let mut ladder = Ladder::new(grace, 0);
    let mut input = Some(&sys::STDIN);
    loop {
        // Data is left to the server.
        let mut fds = [PollFd::readable(input).not_readable(), PollFd::readable(Some(signals))];
        sys::poll(&mut fds, ladder.alarm().map(|at| at.saturating_sub(sys::now())));
        let now = sys::now();
        if fds[0].hung_up() {
            // It stays hung up, which would end each wait at once.
            input = None;
            ladder.told(now);
        }
        while let Some((signal, _)) = sys::next_signal(signals) {
            match signal {
                Signal::CHLD => {}
                Signal::TERM if all => drop(ladder.host_gone(now)),
                signal => drop(sys::kill(server, signal)),
            }
        }
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) if pid == server.get() => sys::exit(crate::exit_code(status)),
                Reaped::Child(..) => {}
                Reaped::NoneYet | Reaped::NoChildren => break,
            }
        }
        match ladder.pass(now) {
            Order::Nothing => {}
            Order::Terminate => {
                // A stopped process handles SIGTERM only after SIGCONT.
                sys::kill_all(Signal::TERM);
                sys::kill_all(Signal::CONT);
                ladder.sent();
            }
            Order::Kill => sys::exit(EXIT_KILLED),
        }
    }
}
