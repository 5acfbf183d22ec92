//! The guardian: parent of one server, there to end it when its host cannot.
//!
//! A static program without libc, built by this crate's build script. `docs/guardian.md` in the repository says why it is what it is, shows its
//! states and its protocol, and lists what it does not guarantee.
//!
//! - [`params`]: what the host passed in argv and as descriptors
//! - [`birth`]: the fork; [`launch`]: the server's side of it, up to exec
//! - [`spare`]: the wait of a guardian that has no server yet
//! - [`namespace`]: the init of a PID namespace, where one is asked for
//! - [`shim`]: what the wrapper of a server becomes; [`ladder`]: how it ends the server. Pure
//! - [`orphan`]: finds out to whom the kernel gives the host's orphans
//! - [`supervise`]: the event loop
//! - [`course`]: what follows from what has happened. Pure
//! - [`sweep`]: asking and forcing the tree to end
//! - [`record`]: the cgroup and the ledger of a server whose host does not remove them
//! - [`staying`], [`keep`]: who is passed by, and stays
//! - [`swept`]: reaping it, and the names of whoever had to be ended
//! - [`tree`], [`procfs`], [`parse`], [`stat`]: who the descendants are
//! - [`sys`]: system calls; all `unsafe` code

#![no_std]
#![no_main]
#![no_builtins]
#![deny(
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod birth;
mod control;
mod course;
#[expect(dead_code, reason = "the host reads what is written here")]
#[path = "../src/guardian/process/ending.rs"]
mod ending;
mod ladder;
#[path = "keep.rs"]
mod keep;
mod launch;
mod namespace;
mod orphan;
mod params;
mod parse;
mod procfs;
#[expect(dead_code, reason = "what only the host needs of it")]
#[path = "../src/guardian/process/order_format.rs"]
mod order_format;
#[expect(dead_code, reason = "what only the host needs of the protocol")]
#[path = "../src/guardian/process/protocol.rs"]
mod protocol;
mod record;
mod shim;
mod spare;
mod stat;
mod staying;
mod supervise;
mod sweep;
mod swept;
mod sys;
mod tree;

use control::Control;
use params::Params;
use protocol::Report;

/// Exit code when the guardian was started with arguments that make no sense.
const EXIT_USAGE: i32 = 126;
/// Exit code when no server was started, as in a shell.
const EXIT_NOT_STARTED: i32 = 127;

freestanding::start!(main);

fn main(args: sys::Args) -> ! {
    sys::block_all_signals();
    sys::default_all_signals();
    if args.get(1) == Some(shim::ROLE) {
        shim::run(&args)
    }
    let Some((mut params, mut control)) = Params::take(&args).zip(Control::inherited()) else {
        sys::exit(EXIT_USAGE)
    };
    close_inherited_but(protocol::FIRST_FREE_FD.cast_unsigned(), []);
    sys::setsid();
    if params.orphan {
        orphan::leave(control)
    }
    // What came by the stack is all there is, unless this is a spare.
    let mut ordered = None;
    let launched = launch::prepare(params.host).and_then(|ready| {
        if params.spare {
            ordered = spare::wait(&mut params, &mut control, &ready);
            if ordered.is_none() {
                sys::exit(EXIT_NOT_STARTED)
            }
        }
        launch::launch(ordered.as_ref().unwrap_or(&args), params, ready, &control)
    });
    match launched {
        Ok(server) => {
            let args = ordered.unwrap_or(args);
            supervise::Supervisor::new(server, control, args).run()
        }
        Err(launch::Failure::HostGone) => sys::exit(EXIT_NOT_STARTED),
        Err(launch::Failure::Failed(stage, errno)) => {
            // A new socket has room for one message, and without a host there is nobody to tell.
            let _ = control.send(Report::ExecFailed {
                stage,
                errno: errno.0,
            });
            sys::exit(EXIT_NOT_STARTED)
        }
    }
}

/// Closes everything from `first` on that the host did not mean to pass: descriptors of other servers and of the host, and the image itself.
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

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The server dies with the guardian, and the host sees the end of file.
    sys::exit(EXIT_USAGE)
}
