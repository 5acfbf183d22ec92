//! The end of a process as an event, whoever's child it is.

use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use mcp_lifecycle_core::launch::{ErrorChain, Gone, ProcessTerminator, StepError};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::stage::{LIMIT, Stage};

/// Waits until all of a process has ended. What it has held is closed before that.
#[track_caller]
pub(crate) fn wait_for_end(pid: u32) {
    // SAFETY: the call takes numbers only.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let opened = match Errno::result(opened) {
        Err(Errno::ESRCH) => return,
        opened => RawFd::try_from(opened.unwrap()).unwrap(),
    };
    // SAFETY: the kernel has just created it for us.
    let process = unsafe { OwnedFd::from_raw_fd(opened) };
    let limit = PollTimeout::try_from(LIMIT).unwrap();
    let ended = poll(
        &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
        limit,
    );
    assert_eq!(ended, Ok(1), "{pid} does not end");
}

/// The proof, once strangers have gone that may be the server's as far as this user can
/// tell: those of other tests, in PID namespaces and sessions of their own.
#[track_caller]
pub(crate) fn proof_beside_strangers(
    stage: &Stage,
    terminator: &dyn ProcessTerminator,
) -> Result<Gone, StepError> {
    loop {
        let error = match stage.wait("the last word", terminator.gone()) {
            Err(error) if ErrorChain(&error).to_string().contains("may be its") => error,
            gone => return gone,
        };
        let text = ErrorChain(&error).to_string();
        let own: Vec<u32> = stage.alive.alive().iter().map(|it| it.pid).collect();
        let named = text.rsplit_once("proves it): ").unwrap().1.split(", ");
        let named = named.filter_map(|it| it.split(' ').next()?.parse().ok());
        let named: Vec<u32> = named.collect();
        if named.is_empty() || named.iter().any(|pid| own.contains(pid)) {
            return Err(error);
        }
        named.into_iter().for_each(wait_for_end);
        stage.wait("the order", terminator.force_end()).unwrap();
    }
}
