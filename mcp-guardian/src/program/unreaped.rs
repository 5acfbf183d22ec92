//! Guardians without a handle that have not ended yet.
//!
//! Each was asked to end its server, and is reaped on the thread that waits for all servers or,
//! where that cannot wait for it, or a tracer holds it, by the next start of a guardian.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use crate::sys::watch::{self, Interest};
use crate::sys::{self, Child};

#[derive(Debug)]
pub(super) enum Unreaped {
    Held(Arc<OwnedFd>),
    /// There was no descriptor for it. Its pid is not reused until it is reaped.
    Numbered(Pid),
}

static LEFT: Mutex<Vec<Unreaped>> = Mutex::new(Vec::new());

impl Unreaped {
    /// Arranges that the guardian is reaped when it ends.
    pub(super) fn leave(self) {
        if self.is_reaped() {
            return;
        }
        if let Self::Held(pidfd) = &self {
            let held = Arc::clone(pidfd);
            // A readable pidfd means that it has ended. Polling one that a tracer holds would cost
            // a core for as long as the tracer likes.
            let look = move || {
                let ended = Self::Held(Arc::clone(&held));
                if !ended.is_reaped() {
                    ended.put_aside();
                }
                Interest::Done
            };
            if watch::readable(Arc::<OwnedFd>::clone(pidfd), look).is_ok() {
                return;
            }
        }
        self.put_aside();
    }

    fn put_aside(self) {
        LEFT.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self);
    }

    /// Reaps it if it has ended. Also returns `true` if it was reaped elsewhere.
    pub(super) fn is_reaped(&self) -> bool {
        let child = match self {
            Self::Held(pidfd) => Child::Held(pidfd.as_fd()),
            Self::Numbered(pid) => Child::Numbered(*pid),
        };
        sys::waited(child, WaitPidFlag::empty()) != Ok(None)
    }
}

/// Reaps guardians that could not be waited for and have ended meanwhile.
pub(super) fn reap() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|unreaped| !unreaped.is_reaped());
}
