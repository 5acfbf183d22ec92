//! The supervised init: process 1 of a container, which ends the server when
//! the host has gone.
//!
//! `mcp-init [--gate] GRACE-MS PROGRAM ARGS...` runs the program as its child, passes
//! signals on, reaps, and exits as the program does; the kernel ends the rest.
//! And it watches standard input: when the other end has been closed, the
//! server has the grace to leave by itself, then everything in the container
//! gets SIGTERM, and after another grace process 1 exits, which is SIGKILL for
//! all others.
//!
//! With `--gate` the program is started once somebody says so on standard input, and
//! SIGTERM is for everything in the container: see [`gate`].
//!
//! `mcp-init --last-will SOCKET GRACE-MS LIMIT-MS [CONTAINERS IMAGES]` runs outside of containers, see [`will`].
//!
//! A static program without libc, built by the build scripts of the launchers of containers
//! and pods in the same way as the guardian of `mcp-launcher-local`; `docs/docker.md` says
//! why it is not the same program.
//!
//! - [`sys`]: system calls; all `unsafe` code

#![no_std]
#![no_main]
#![no_builtins]
#![deny(
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod answers;
mod gate;
mod sys;
mod will;

use sys::{Args, Fork, Reaped};

/// Nothing was run: the arguments make no sense, or there is no memory.
const EXIT_USAGE: i32 = 126;
/// The program could not be run, as in a shell.
const EXIT_NOT_FOUND: i32 = 127;
/// The exit code of an end by SIGKILL, as seen from outside.
const EXIT_KILLED: i32 = 128 + 9;

/// Where the grace is among the arguments; the program follows.
const GRACE: usize = 1;

/// The first argument of an init that waits until it is told to start the program.
const GATE: &[u8] = b"--gate";
/// The first argument of what is not an init.
const LAST_WILL: &[u8] = b"--last-will";
/// Where its socket, its times and its requests are.
const SOCKET: usize = 2;
const PATIENCE: usize = 3;
const LIMIT: usize = 4;
const CONTAINERS: usize = 5;
const IMAGES: usize = 6;

fn main(args: Args) -> ! {
    if args.get(GRACE) == Some(LAST_WILL) {
        let queries = match (args.get(CONTAINERS), args.get(IMAGES)) {
            (Some(containers), Some(images)) => Some(will::Queries { containers, images }),
            _ => None,
        };
        let time = |at| args.get(at).and_then(number);
        match (args.get(SOCKET), time(PATIENCE), time(LIMIT)) {
            (Some(socket), Some(grace), Some(limit)) => will::run(socket, grace, limit, queries),
            _ => sys::exit(EXIT_USAGE),
        }
    }
    let gated = args.get(GRACE) == Some(GATE);
    let at = GRACE + usize::from(gated);
    let program = at + 1;
    let grace = args.get(at).and_then(number);
    let Some(grace) = grace.filter(|_| args.get(program).is_some()) else {
        sys::exit(EXIT_USAGE)
    };
    // Blocked signals are not ignored, not even by process 1: they are read.
    sys::block_all_signals();
    let Ok(signals) = sys::signalfd_all() else {
        sys::exit(EXIT_USAGE)
    };
    if gated {
        gate::wait(signals);
    }
    match sys::fork() {
        Ok(Fork::Child) => run(&args, program),
        Ok(Fork::Parent(server)) => supervise(server, signals, grace, gated),
        Err(_) => sys::exit(EXIT_USAGE),
    }
}

/// Becomes the server.
fn run(args: &Args, program: usize) -> ! {
    sys::unblock_all_signals();
    sys::exec(args, program);
    sys::complain(b"mcp-init: cannot run ");
    sys::complain(args.get(program).unwrap_or_default());
    sys::complain(b"\n");
    sys::exit(EXIT_NOT_FOUND)
}

/// How far the end has come.
enum Stage {
    /// Somebody holds the other end of standard input.
    Running,
    /// Nobody does: the server has until then to leave.
    EndOfInput(u64),
    /// Everything was asked to end, and has until then.
    Asked(u64),
}

/// `all`: SIGTERM is for everything, and begins the grace.
fn supervise(server: i32, signals: i32, grace: u64, all: bool) -> ! {
    // Only the server holds its output: its end is seen outside.
    sys::close(1);
    sys::close(2);
    let mut stage = Stage::Running;
    loop {
        let stdin = match stage {
            Stage::Running => 0,
            // It would be ready for ever.
            Stage::EndOfInput(_) | Stage::Asked(_) => -1,
        };
        let limit = match stage {
            Stage::Running => None,
            Stage::EndOfInput(at) | Stage::Asked(at) => Some(at.saturating_sub(sys::now())),
        };
        let hung_up = sys::wait_for(stdin, signals, limit);
        let mut asked = false;
        while let Some(signal) = sys::next_signal(signals) {
            match signal {
                sys::SIGCHLD => {}
                sys::SIGTERM if all => asked = true,
                signal => sys::kill(server, signal),
            }
        }
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) if pid == server => sys::exit(exit_code(status)),
                Reaped::Child(..) => {}
                Reaped::None => break,
            }
        }
        let now = sys::now();
        stage = match stage {
            Stage::Running | Stage::EndOfInput(_) if asked => ask_all(now, grace),
            Stage::Running if hung_up => Stage::EndOfInput(now.saturating_add(grace)),
            Stage::EndOfInput(at) if now >= at => ask_all(now, grace),
            Stage::Asked(at) if now >= at => sys::exit(EXIT_KILLED),
            stage => stage,
        };
    }
}

/// Asks everything in the container to end.
fn ask_all(now: u64, grace: u64) -> Stage {
    // Stopped processes act on no SIGTERM.
    sys::kill(-1, sys::SIGTERM);
    sys::kill(-1, sys::SIGCONT);
    Stage::Asked(now.saturating_add(grace))
}

/// As a shell would put it.
fn exit_code(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Milliseconds, in nanoseconds.
fn number(text: &[u8]) -> Option<u64> {
    let mut all = 0_u64;
    for &byte in text {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        all = all.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    all.checked_mul(1_000_000).filter(|_| !text.is_empty())
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The container ends with its process 1.
    sys::exit(EXIT_USAGE)
}
