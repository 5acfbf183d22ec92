//! Hears a guardian and reaps it, on the watcher's thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone};

use super::conclude::account;
use super::process::Received;
use super::process::protocol::{MESSAGE_MAX, Report, Stage};
use super::server::Server;
use crate::sys;
use crate::sys::watch::Interest;

/// What one look at the socket brought.
#[derive(Default)]
struct Heard {
    exit: Option<ExitStatus>,
    gone: Option<Gone>,
    failed: Option<(Stage, i32)>,
}

/// The socket of a server's guardian, for the watcher.
struct Socket(Arc<Server>);

/// The process of a server's guardian, for the watcher.
struct Process(Arc<Server>);

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.guardian.control()
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.guardian.pidfd()
    }
}

impl Server {
    /// Hears the guardian from here on, on the watcher's thread.
    ///
    /// # Errors
    ///
    /// Then nothing is heard, and the caller ends it.
    pub(super) fn watch(self: &Arc<Self>) -> io::Result<()> {
        let (socket, process) = (Arc::clone(self), Arc::clone(self));
        let exit = sys::watch::readable(Arc::new(Process(Arc::clone(self))), move || {
            process.guardian_exited()
        })?;
        let heard = sys::watch::readable(Arc::new(Socket(Arc::clone(self))), move || socket.hear());
        heard.map(drop).inspect_err(|_| exit.forget())
    }

    /// On the watcher's thread: the socket has something to read.
    fn hear(self: &Arc<Self>) -> Interest {
        let mut buffer = [0; MESSAGE_MAX];
        let mut heard = Heard::default();
        let interest = loop {
            match self.guardian.receive(&mut buffer) {
                Ok(Received::Report(report)) => {
                    self.take(report, &mut heard);
                    // The last word.
                    if heard.gone.is_some() {
                        break Interest::Done;
                    }
                }
                Ok(Received::Nothing) => break Interest::More,
                // The exit of the guardian says the rest.
                Ok(Received::Closed) => break Interest::Done,
                Err(error) => {
                    let guardian = self.guardian.pid();
                    sys::shielded(|| tracing::warn!(guardian, %error, "unusable report"));
                    // What is no report is left out; what could not be received
                    // is still there.
                    if error.kind() != io::ErrorKind::InvalidData {
                        break Interest::More;
                    }
                }
            }
        };
        let Some(gone) = heard.gone else {
            self.tell_exit(heard.exit);
            return interest;
        };
        self.concluding.store(true, Ordering::Relaxed);
        self.conclude(heard.exit, gone, heard.failed);
        // Nothing follows but the end of the socket, which its exit says as well.
        Interest::Done
    }

    fn take(&self, report: Report<'_>, heard: &mut Heard) {
        match report {
            Report::Started { pid } => self.note_start(pid),
            Report::ExecFailed { stage, errno } => {
                heard.failed = Some((stage, errno));
                heard.gone = Some(Gone::proven_by(Evidence::Reaped));
            }
            Report::MainExited { status } => heard.exit = Some(exit_status(status)),
            // Of a guardian without a server.
            // To nobody who has a server, and whose record is its own to remove.
            // Of a limit that nobody has set.
            Report::Adopted { .. } | Report::Unproven { .. } | Report::OutOfMemory => {}
            Report::Gone { status, swept } => {
                heard.exit = Some(exit_status(status));
                heard.gone = Some(account(&swept));
            }
        }
    }

    /// The guardian is a zombie: its watcher says so, or whoever has the last word has seen it first.
    pub(super) fn guardian_exited(self: &Arc<Self>) -> Interest {
        if self.guardian_over.swap(true, Ordering::Relaxed) {
            return Interest::Done;
        }
        match self.guardian.try_reap() {
            Ok(Some(_)) => {}
            // Ended it has, or its descriptor would not be readable. Looked at
            // again and again, it would stay so for as long as the tracer likes.
            Ok(None) => sys::shielded(|| {
                tracing::warn!(
                    guardian = self.guardian.pid(),
                    "a guardian has ended and is held by a tracer: it stays a zombie until that \
                     lets go"
                );
            }),
            Err(error) => sys::shielded(|| {
                tracing::debug!(%error, "the guardian was reaped by somebody else");
            }),
        }
        // Its last words may still be in the socket.
        if !self.concluding.load(Ordering::Relaxed) {
            self.hear();
        }
        if !self.concluding.swap(true, Ordering::Relaxed) {
            self.take_over();
        }
        self.guardian_reaped();
        Interest::Done
    }
}

/// From a wait status as `waitpid` reports it.
fn exit_status(status: i32) -> ExitStatus {
    let status = std::process::ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Unknown,
    }
}
