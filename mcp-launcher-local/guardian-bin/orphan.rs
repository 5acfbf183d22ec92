//! To whom the kernel gives what loses its parent below the host: found out by losing one.
//!
//! There is no other way to ask: which of the processes above is a subreaper, only that process can tell.

use crate::control::{Control, Received};
use crate::protocol::Report;
use crate::sys::{self, Fork, Nanos};

/// How long the host may take to hold the guardian, and the guardian to end. A machine that is stuck; nobody waits for longer.
const ROUNDS: u32 = 2_000;
const ROUND: Nanos = Nanos(1_000_000);

/// Leaves a child behind, which says who its parent is then, and ends.
pub(crate) fn leave(mut control: Control) -> ! {
    let parent = sys::getpid();
    if let Ok(Fork::Child) = sys::fork() {
        for _ in 0..ROUNDS {
            let by = sys::getppid();
            if by != parent {
                let _ = control.send(Report::Adopted { by });
                break;
            }
            sys::poll(&mut [], Some(ROUND));
        }
        sys::exit(0)
    }
    // The host holds the guardian first: one that has ended can be reaped by anybody.
    for _ in 0..ROUNDS {
        match control.receive() {
            Received::Nothing => sys::poll(&mut [control.events()], Some(ROUND)),
            Received::Request(_) | Received::Muted | Received::Gone => break,
        }
    }
    sys::exit(0)
}
