//! The program between a host and one server, which ends the server when its host cannot.
//!
//! A static program without libc, built by this crate's build script. `docs/containment.md` has its
//! states, its protocol and its limits. Its arguments name its role.
//!
//! - the guardian: [`launch`] (in a [`namespace`]), [`supervise`] by the pure [`course`], [`sweep`]
//!   of the [`tree`]
//! - [`abandoned`]: what a host leaves behind while it lives
//! - [`account`]: the report of its start and its end
//! - [`orphan`]: finds which process inherits the host's orphans
//! - [`shim`]: the process that a wrapper becomes, by the pure [`ladder`]
//! - [`init`]: process 1 of a container or pod, and the last will of a host
//! - [`sys`]: system calls; all `unsafe` code

#![no_std]
#![no_main]
#![no_builtins]
#![deny(
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod abandoned;
mod account;
mod control;
mod course;
#[expect(dead_code, reason = "the host reads what is written here")]
#[path = "../src/program/ending.rs"]
mod ending;
#[path = "init/mod.rs"]
mod init;
#[expect(dead_code, reason = "the host checks the length of the patterns")]
#[path = "keep.rs"]
mod keep;
mod ladder;
mod launch;
mod namespace;
mod orphan;
mod parse;
mod procfs;
#[path = "../src/program/protocol.rs"]
mod protocol;
mod record;
mod shim;
#[expect(dead_code, reason = "what only the host asks")]
mod stat;
mod staying;
mod supervise;
mod sweep;
mod swept;
mod sys;
#[path = "../src/program/text.rs"]
mod text;
mod tree;

use control::Control;
use launch::Params;
use protocol::Report;
use sys::Signals;

const EXIT_USAGE: i32 = 126;
/// Exit code if no server was started, as in a shell.
const EXIT_NOT_STARTED: i32 = 127;

/// The program's own name, with or without a path, in the role of an init.
const INIT: &[u8] = b"mcp-init";

fn main(args: sys::Args) -> ! {
    if args.get(0).is_some_and(|name| name.to_bytes().ends_with(INIT)) {
        init::run(&args)
    }
    sys::block(Signals::ALL);
    sys::default_all_signals();
    if args.get(1) == Some(shim::ROLE) {
        shim::run(&args)
    }
    let Some((params, control)) = Params::take(&args).zip(Control::inherited()) else {
        sys::exit(EXIT_USAGE)
    };
    close_inherited_but(protocol::FIRST_FREE_FD.cast_unsigned(), []);
    if !params.in_foreground {
        sys::leave_terminal();
    }
    if params.orphan {
        orphan::leave(control)
    }
    match launch::launch(&args, params, &control) {
        Ok(server) => supervise::Supervisor::new(server, control, args).run(),
        Err(launch::Failure::HostGone) => sys::exit(EXIT_NOT_STARTED),
        Err(launch::Failure::Failed(stage, errno)) => {
            // A new socket has room for one message; without a host it does not matter.
            let _ = control.send(Report::ExecFailed {
                stage,
                errno: errno.0,
            });
            sys::exit(EXIT_NOT_STARTED)
        }
    }
}

/// Closes descriptors from `first` on that are not meant for it: leaked ones, and the image.
fn close_inherited_but<const N: usize>(first: u32, mut kept: [Option<u32>; N]) {
    kept.sort_unstable();
    let mut from = first;
    let mut closed = Ok(());
    for kept in kept.into_iter().flatten().filter(|&kept| kept >= first) {
        if kept > from {
            closed = closed.and(sys::close_range(from, kept - 1));
        }
        from = kept.saturating_add(1);
    }
    if closed.and(sys::close_range(from, u32::MAX)).is_err() {
        procfs::close_from(first, &kept);
    }
}

fn exit_code(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The server dies with the guardian, or with process 1, and the host sees the end of file.
    sys::exit(EXIT_USAGE)
}
