//! One server behind its guardian: the primitives that end it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::error::StepError;
use mcp_lifecycle_core::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity,
    TerminationSemantics,
};
use tokio::sync::watch;

use super::conclude::Settling;
use crate::cgroup::Leaf;
use crate::ending::Ending;
use crate::guard::protocol::{Listing, MESSAGE_MAX, Report, Request, Stage};
use crate::guard::{GuardianHandle, Received};
use crate::orphans::Entry;
use crate::sys::watch::Interest;
use crate::sys::{self, Pid};

/// The terminator of a server behind a guardian.
#[derive(Debug)]
pub(super) struct GuardedServer {
    server: Arc<Server>,
}

/// How the start went: the server's pid, or what failed and its `errno`.
pub(super) type Started = Result<u32, (Stage, i32)>;

/// Shared with the watcher, so that the guardian is heard and reaped whoever is
/// dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) guardian: GuardianHandle,
    start_time: OnceLock<Option<u64>>,
    pub(super) started: watch::Sender<Option<Started>>,
    pub(super) ending: Ending,
    /// The live descendants, as of the last answer, and how often it came.
    listing: watch::Sender<Listed>,
    /// What holds the server together besides the guardian, or why nothing does.
    pub(super) leaf: Result<Mutex<Option<Leaf>>, String>,
    /// Where it is written down for whoever comes after this host.
    pub(super) entry: Mutex<Option<Entry>>,
    containment: Containment,
    /// Somebody has the last word, which may take until the cgroup is empty.
    concluding: AtomicBool,
    pub(super) settling: Mutex<Settling>,
    /// Who was alive besides the server's own process when the tree was signalled.
    signalled: Mutex<BTreeMap<u32, String>>,
}

/// What one look at the socket brought.
#[derive(Default)]
struct Heard {
    exit: Option<ExitStatus>,
    gone: Option<Gone>,
    failed: Option<(Stage, i32)>,
}

#[derive(Debug, Clone, Default)]
struct Listed {
    answers: u64,
    processes: Vec<(u32, String)>,
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
    /// Takes a guardian over.
    pub(super) fn new(
        guardian: GuardianHandle,
        leaf: Result<Leaf, String>,
        entry: Option<Entry>,
        containment: Containment,
    ) -> Arc<Self> {
        Arc::new(Self {
            guardian,
            start_time: OnceLock::new(),
            started: watch::Sender::new(None),
            ending: Ending::new(),
            listing: watch::Sender::default(),
            leaf: leaf.map(|leaf| Mutex::new(Some(leaf))),
            entry: Mutex::new(entry),
            containment,
            concluding: AtomicBool::new(false),
            settling: Mutex::default(),
            signalled: Mutex::default(),
        })
    }

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

    /// Ends a server that is not watched, and says whether nothing is left of it.
    ///
    /// Blocks until the guardian has ended, at most `limit` long.
    pub(super) fn end_and_wait(self: &Arc<Self>, limit: Duration) -> bool {
        if let Err(error) = self.send(Request::Kill) {
            sys::shielded(|| tracing::warn!(%error, "the guardian cannot be told"));
        }
        self.guardian.wait_exit(limit)
            && self.guardian_exited() == Interest::Done
            && !self.ending.is_lost()
    }

    /// Waits until the server's program runs, or could not be executed.
    pub(super) async fn started(&self) -> Option<Started> {
        let mut started = self.started.subscribe();
        tokio::select! {
            biased;
            started = started.wait_for(Option::is_some) => started.ok().and_then(|s| *s),
            // The word on the start comes before the last word, but both may
            // have come since the line above was looked at.
            () = self.ending.over() => *self.started.borrow(),
        }
    }

    /// On the watcher's thread: the socket has something to read.
    fn hear(self: &Arc<Self>) -> Interest {
        let mut buffer = [0; MESSAGE_MAX];
        let mut heard = Heard::default();
        let interest = loop {
            match self.guardian.receive(&mut buffer) {
                Ok(Received::Report(report)) => self.take(report, &mut heard),
                Ok(Received::Nothing) => break Interest::More,
                // The exit of the guardian says the rest.
                Ok(Received::Closed) => break Interest::Done,
                Err(error) => {
                    tracing::warn!(guardian = self.guardian.pid(), %error, "unusable report");
                    break Interest::Done;
                }
            }
        };
        match heard.gone {
            Some(gone) => {
                self.concluding.store(true, Ordering::Relaxed);
                self.conclude(heard.exit, gone, heard.failed);
            }
            None if heard.exit.is_some() => {
                self.ending
                    .update(|known| known.exit = known.exit.or(heard.exit));
            }
            None => {}
        }
        interest
    }

    fn take(&self, report: Report<'_>, heard: &mut Heard) {
        match report {
            Report::Started { pid } => {
                let start_time = Pid::new(pid.into()).and_then(sys::start_time);
                let _ = self.start_time.set(start_time);
                if let Some(entry) = &*self.lock_entry() {
                    entry.started(pid, start_time);
                }
                self.started.send_replace(Some(Ok(pid)));
            }
            Report::ExecFailed { stage, errno } => {
                heard.failed = Some((stage, errno));
                heard.gone = Some(Gone::proven_by(Evidence::Reaped));
            }
            Report::MainExited { status } => heard.exit = Some(exit_status(status)),
            Report::Listing(listing) => self.take_listing(&listing),
            Report::Gone { status, swept } => {
                heard.exit = Some(exit_status(status));
                heard.gone = Some(self.account(swept as usize));
            }
        }
    }

    fn take_listing(&self, listing: &Listing<'_>) {
        let processes = listing
            .processes()
            .map(|(pid, name)| (pid, String::from_utf8_lossy(name).into_owned()))
            .collect();
        self.listing.send_modify(|listed| {
            listed.answers += 1;
            listed.processes = processes;
        });
    }

    /// On the watcher's thread: the guardian is a zombie.
    fn guardian_exited(self: &Arc<Self>) -> Interest {
        match self.guardian.try_reap() {
            Ok(None) => return Interest::More,
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(%error, "the guardian was reaped by somebody else"),
        }
        // Its last words may still be in the socket.
        self.hear();
        if !self.concluding.swap(true, Ordering::Relaxed) {
            self.take_over();
        }
        self.guardian_reaped();
        Interest::Done
    }

    fn send(&self, request: Request) -> io::Result<()> {
        match self.guardian.send(request) {
            // It has ended, and everything with it or not at all: `gone` tells.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Asks who lives; `None` when the guardian has gone.
    async fn list(&self) -> io::Result<Option<Vec<(u32, String)>>> {
        let mut listing = self.listing.subscribe();
        let before = listing.borrow_and_update().answers;
        self.send(Request::List)?;
        tokio::select! {
            biased;
            () = self.ending.over() => Ok(None),
            listed = listing.wait_for(|listed| listed.answers > before) => {
                Ok(listed.ok().map(|listed| listed.processes.clone()))
            }
        }
    }

    /// Remembers who lives before the tree is signalled, then signals it.
    async fn signal(&self, request: Request) -> io::Result<()> {
        if self.ending.has_exited() || request == Request::Kill {
            let alive = self.list().await?.unwrap_or_default();
            self.lock_signalled().extend(alive);
        }
        self.send(request)
    }

    pub(super) fn main_pid(&self) -> Option<u32> {
        self.started.borrow().and_then(Result::ok)
    }

    pub(super) fn lock_entry(&self) -> MutexGuard<'_, Option<Entry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_signalled(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        self.signalled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuardedServer {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server }
    }
}

#[async_trait]
impl ProcessTerminator for GuardedServer {
    fn identity(&self) -> ServerIdentity {
        let start_time = self.server.start_time.get().copied().flatten();
        ServerIdentity::process(self.server.main_pid().unwrap_or_default(), start_time)
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::full(self.server.containment.clone())
    }

    async fn exited(&self) -> ExitStatus {
        self.server.ending.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let sent = self.server.signal(Request::Terminate).await;
        sent.map_err(|error| StepError::new("tell the guardian to send SIGTERM", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let sent = self.server.signal(Request::Kill).await;
        sent.map_err(|error| StepError::new("tell the guardian to send SIGKILL", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.server.ending.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let listed = self.server.list().await;
        let listed = listed.map_err(|error| StepError::new("ask the guardian", error))?;
        Ok(listed
            .unwrap_or_default()
            .into_iter()
            .map(|(pid, name)| Remnant::process(pid, name))
            .collect())
    }

    fn kill_now(&self) {
        if let Err(error) = self.server.send(Request::Kill) {
            tracing::warn!(server = %self.identity(), %error, "the guardian cannot be told");
        }
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
