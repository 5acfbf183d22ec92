//! The host's handle of a running guardian.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, sendmsg, shutdown};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::ending::UNPROVEN;
use super::protocol::{MESSAGE_MAX, Report, Request, Stage};
use super::unreaped::Unreaped;
use crate::sys::{Child, continue_held, deadline, ends_within, kill_held, uninterrupted, waited};

/// A guardian and, through it, a server. It is signalled only by [`resume`](Self::resume) and
/// [`abandon`](Self::abandon): killing it sets free the processes that it guards.
///
/// # Drop
///
/// Closes the control socket, so that the guardian ends the server. It is then reaped by the thread
/// that waits for all servers.
#[derive(Debug)]
#[must_use = "dropping the handle kills the server"]
pub struct GuardianHandle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    control: Arc<OwnedFd>,
    reaped: AtomicBool,
}

/// The result of [`GuardianHandle::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    Report(Report<'a>),
    /// None at present: wait until [`GuardianHandle::control`] is readable.
    Nothing,
    /// There will be no more. Without a last report before, the guardian was killed.
    Closed,
}

/// The outcome of a start, by the guardian's reports.
#[derive(Debug)]
pub enum Outcome {
    Started(u32),
    Failed(Stage, i32),
    Gone,
    /// The guardian was killed, its reports cannot be received, or there is none in time.
    Unknown,
}

impl GuardianHandle {
    pub(super) fn new(pid: Pid, pidfd: OwnedFd, control: OwnedFd) -> Self {
        Self {
            pid,
            pidfd: Arc::new(pidfd),
            control: Arc::new(control),
            reaped: AtomicBool::new(false),
        }
    }

    /// Process id of the guardian, for display.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Readable when the guardian has exited. Only for waiting, never for signalling.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The socket, non-blocking. Readable when there is something to [`receive`](Self::receive).
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Returns the socket and the pidfd, to be waited for.
    pub fn descriptors(&self) -> [Arc<OwnedFd>; 2] {
        [&self.control, &self.pidfd].map(Arc::clone)
    }

    /// Sends a request, without waiting; [`io::ErrorKind::BrokenPipe`] if the guardian has exited.
    pub fn send(&self, request: Request) -> io::Result<()> {
        crate::sys::not_forked()?;
        let message = request.encode();
        let socket = self.control.as_raw_fd();
        let message = [IoSlice::new(&message)];
        // Sandboxes without a network refuse `sendto`.
        let send = || sendmsg::<()>(socket, &message, &[], MsgFlags::MSG_NOSIGNAL, None);
        let attempt = || uninterrupted(send);
        // As in `receive`, the first call after the guardian's exit may fail.
        let sent = attempt().or_else(|errno| match errno {
            Errno::ECONNRESET => attempt(),
            errno => Err(errno),
        });
        Ok(sent.map(drop)?)
    }

    /// Requests the end of the server. If the socket has no room for the request, its sending half
    /// is closed, which the guardian takes for one.
    pub fn kill(&self) -> io::Result<()> {
        crate::sys::not_forked()?;
        match self.send(Request::Kill) {
            // It has ended, and its last reports say whether the tree has ended with it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(_) => match shutdown(self.control.as_raw_fd(), Shutdown::Write) {
                Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
            Ok(()) => Ok(()),
        }
    }

    /// Resumes a guardian that was stopped by SIGSTOP. It has no effect on one that a tracer holds.
    pub fn resume(&self) {
        let _ = continue_held(&self.pidfd);
    }

    /// Kills the guardian itself, and sets free the processes that it guards: for a host that has
    /// ended the server by other means.
    pub fn abandon(&self) -> io::Result<()> {
        kill_held(&self.pidfd)
    }

    /// Receives the next report, if there is one; [`io::ErrorKind::InvalidData`] for another message.
    pub fn receive<'b>(&self, buffer: &'b mut [u8; MESSAGE_MAX]) -> io::Result<Received<'b>> {
        receive(&self.control, buffer)
    }

    /// Receives reports up to the next outcome, and waits for it at most for `limit`. Blocks the
    /// thread.
    pub fn outcome(&self, limit: Duration) -> Outcome {
        let outcome = self.wait_for(limit, |received| match received {
            Received::Report(Report::Started { pid }) => Some(Outcome::Started(pid)),
            Received::Report(Report::ExecFailed { stage, errno }) => {
                Some(Outcome::Failed(stage, errno))
            }
            Received::Report(Report::Gone { flags, .. }) if flags & UNPROVEN == 0 => {
                Some(Outcome::Gone)
            }
            Received::Report(_) | Received::Nothing => None,
            Received::Closed => Some(Outcome::Unknown),
        });
        outcome.unwrap_or(Outcome::Unknown)
    }

    /// Receives reports until `found` returns something. `None` after `limit`, or if they cannot be
    /// received. Blocks the thread.
    pub(super) fn wait_for<T>(
        &self,
        limit: Duration,
        found: impl FnMut(Received<'_>) -> Option<T>,
    ) -> Option<T> {
        wait_for(&self.control, limit, found)
    }

    /// Reaps the guardian if it has exited. Not to be called after it has returned a status, which
    /// mirrors the server's; a signal means that the guardian itself was killed. ECHILD if another part
    /// of the host has reaped it.
    pub fn try_reap(&self) -> io::Result<Option<ExitStatus>> {
        let ended = match waited(Child::Held(self.pidfd.as_fd()), WaitPidFlag::empty()) {
            Ok(Some(ended)) => ended,
            Ok(None) => return Ok(None),
            Err(errno) => {
                self.reaped
                    .fetch_or(errno == Errno::ECHILD, Ordering::Relaxed);
                return Err(errno.into());
            }
        };
        self.reaped.store(true, Ordering::Relaxed);
        Ok(Some(ended))
    }

    /// Returns whether the guardian exits within `limit`. Does not reap it. Blocks the thread.
    pub fn wait_exit(&self, limit: Duration) -> bool {
        let end = deadline(limit);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match ends_within(self.pidfd(), left) {
                Ok(ended) => return ended,
                Err(_) if left.is_zero() => return false,
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Stage {
    /// Returns what failed.
    pub fn failure(self) -> &'static str {
        match self {
            Self::Setup => "the guardian could not set itself up",
            Self::Fork => "the guardian could not create a process for the server",
            Self::Cgroup => "the server could not join its cgroup",
            Self::Chdir => "the working directory could not be entered",
            Self::Exec => "the program could not be executed",
            Self::Namespace => "the server's PID namespace could not be created",
            Self::Subreaper => {
                "the guardian could not become a subreaper (prctl PR_SET_CHILD_SUBREAPER; a sandbox may refuse it)"
            }
            Self::ChildExits => {
                "the guardian could not wait for exits (signalfd; a sandbox may refuse it)"
            }
            Self::DeathSignal => {
                "the server could not be tied to its guardian (prctl PR_SET_PDEATHSIG; a sandbox may refuse it)"
            }
            Self::Restrict => {
                "the server could not be restricted (seccomp, landlock; a sandbox may refuse it)"
            }
        }
    }
}

/// Returns how a guardian ended, by what [`try_reap`](GuardianHandle::try_reap) returned.
pub fn how_it_ended(reaped: &io::Result<Option<ExitStatus>>) -> String {
    match reaped {
        Ok(Some(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was killed (signal {signal})"),
            (None, None) => format!("ended with {status}"),
        },
        Ok(None) => "ended and is held by a tracer".to_owned(),
        Err(error) => format!("ended; its exit status is lost ({error})"),
    }
}

pub(super) fn wait_for<T>(
    control: &OwnedFd,
    limit: Duration,
    mut found: impl FnMut(Received<'_>) -> Option<T>,
) -> Option<T> {
    let end = deadline(limit);
    let mut buffer = [0; MESSAGE_MAX];
    loop {
        let received = receive(control, &mut buffer).ok()?;
        if let Some(found) = found(received) {
            return Some(found);
        }
        let left = end.saturating_duration_since(Instant::now());
        if received == Received::Nothing && !ends_within(control.as_fd(), left).ok()? {
            return None;
        }
    }
}

fn receive<'b>(control: &OwnedFd, buffer: &'b mut [u8; MESSAGE_MAX]) -> io::Result<Received<'b>> {
    let mut short = 0;
    let len = loop {
        match recv(control.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => return Ok(Received::Closed),
            Ok(len) => break len,
            Err(Errno::EAGAIN) => return Ok(Received::Nothing),
            // The guardian exited with a request unread. Returned once, before the reports that
            // are still queued.
            Err(Errno::ECONNRESET | Errno::EINTR) => {}
            // A report must not be lost for a short lack of memory.
            Err(Errno::ENOMEM | Errno::ENOBUFS) if short < 1000 => {
                short += 1;
                thread::yield_now();
            }
            Err(errno) => return Err(errno.into()),
        }
    };
    let report = buffer.get(..len).and_then(Report::decode);
    report
        .map(Received::Report)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a report of the guardian"))
}

impl Drop for GuardianHandle {
    fn drop(&mut self) {
        if !*self.reaped.get_mut() && crate::sys::not_forked().is_ok() {
            // A child that the host has forked may keep the socket open.
            let _ = self.kill();
            self.resume();
            Unreaped::Held(Arc::clone(&self.pidfd)).leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_guardian_has_its_code_or_signal() {
        let ended = |status| how_it_ended(&Ok(Some(ExitStatus::from_raw(status))));
        assert_eq!(ended(9), "was killed (signal 9)");
        assert_eq!(ended(0x80 | 6), "was killed (signal 6)");
        assert_eq!(ended(126 << 8), "ended with code 126");
        assert!(how_it_ended(&Ok(None)).contains("tracer"));
        let error = io::Error::from_raw_os_error(libc::ECHILD);
        assert!(how_it_ended(&Err(error)).contains("lost"));
    }
}
