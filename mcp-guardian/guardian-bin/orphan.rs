//! Finds which process inherits the host's orphans, by leaving one. Only a process itself can tell
//! whether it is a subreaper.

use crate::control::{Control, Received};
use crate::protocol::Report;
use crate::sys::{self, Fork};

/// Time limit for the host to hold the guardian, and for the guardian to exit.
const ROUNDS: u32 = 2_000;
const ROUND: u64 = 1_000_000;

pub(crate) fn leave(mut control: Control) -> ! {
    sys::setsid();
    let parent = sys::getpid();
    if let Ok(Fork::Child) = sys::fork_leader() {
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
    // Wait until the host holds the guardian, which any parent could reap once it has exited.
    for _ in 0..ROUNDS {
        match control.receive() {
            Received::Nothing => sys::poll(&mut [control.events()], Some(ROUND)),
            Received::Request(_) | Received::Muted | Received::Gone => break,
        }
    }
    sys::exit(0)
}
