//! One server behind its guardian: the primitives that end it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};
use tokio::sync::watch;

use super::conclude::{Settling, Word};
use super::decide;
use super::process::GuardianHandle;
use super::process::protocol::{Request, Stage};
use crate::cgroup::Leaf;
use crate::ending::Ending;
use crate::identity::Cookie;
use crate::launcher::blocking;
use crate::orphans::Entry;
use crate::sys::{self, ProcessState};

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
    /// Nobody of it was started before, in clock ticks since boot.
    pub(super) since: u64,
    pub(super) started: watch::Sender<Option<Started>>,
    pub(super) ending: Ending,
    /// What holds the server together besides the guardian, or why nothing does.
    pub(super) leaf: Result<Leaf, String>,
    /// Its main process is the init of a PID namespace.
    pub(super) pid_namespace: bool,
    /// The mark that every process of it carries, unless it has wiped its environment.
    pub(super) identity: Option<Cookie>,
    /// The record of it for the hosts that come after this one.
    entry: Mutex<Option<Entry>>,
    containment: Containment,
    /// Somebody has the last word, which may take until the cgroup is empty.
    pub(super) concluding: AtomicBool,
    /// The guardian has ended: its pid is about to mean somebody else.
    pub(super) guardian_over: AtomicBool,
    pub(super) settling: Mutex<Settling>,
    /// The guardian's last word, also while nobody could look for those whom it does
    /// not see.
    pub(super) word: OnceLock<Word>,
}

impl Server {
    /// Takes a guardian over that was started at `since` or a little later.
    pub(super) fn new(
        guardian: GuardianHandle,
        since: u64,
        leaf: Result<Leaf, String>,
        entry: Option<Entry>,
        identity: Option<Cookie>,
        pid_namespace: bool,
        containment: Containment,
    ) -> Arc<Self> {
        // For its end.
        sys::reserve::keep();
        Arc::new(Self {
            guardian,
            start_time: OnceLock::new(),
            since,
            started: watch::Sender::new(None),
            ending: Ending::new(),
            leaf,
            pid_namespace,
            identity,
            entry: Mutex::new(entry),
            containment,
            concluding: AtomicBool::new(false),
            guardian_over: AtomicBool::new(false),
            settling: Mutex::default(),
            word: OnceLock::new(),
        })
    }

    /// Ends a server that is not watched, and says whether nothing is left of it.
    ///
    /// Blocks until there is a word on that, at most `limit` long.
    pub(super) fn end_and_wait(self: &Arc<Self>, limit: Duration) -> bool {
        if let Err(error) = self.force() {
            sys::shielded(|| tracing::warn!(%error, "the guardian cannot be told"));
        }
        let end = Instant::now() + limit;
        if self.guardian.wait_exit(limit) {
            self.guardian_exited();
            // Those whom the guardian did not see are still searched for.
            while !self.ending.is_over() && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.ending.is_proven()
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

    /// Takes note of the pid of the main process.
    pub(super) fn note_start(&self, pid: u32) {
        let start_time = self.start_of_child(pid);
        let _ = self.start_time.set(start_time);
        if let Some(entry) = &*self.lock_entry() {
            entry.started(pid, start_time);
        }
        self.started.send_replace(Some(Ok(pid)));
    }

    /// The time when the guardian's child `pid` started. A host that was stopped hears late: by
    /// then the number may be a stranger's, who must not be taken for the server.
    fn start_of_child(&self, pid: u32) -> Option<u64> {
        let seen = sys::see(pid).filter(|seen| seen.parent == self.guardian.pid())?;
        // Nor may the guardian's number be another one's.
        (!self.is_guardian_over()).then_some(seen.start_time)
    }

    /// Asks for the end of the tree. A guardian that was stopped goes on first.
    fn ask(&self) -> io::Result<()> {
        sys::not_forked()?;
        self.guardian.resume();
        match self.guardian.send(Request::Terminate) {
            // It has ended, and everything with it or not at all: `gone` tells.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Ends the server by every means that this host has. None of them waits
    /// for an answer, and each is tried whatever the others do.
    fn force(self: &Arc<Self>) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.look_again() {
            self.take_over();
            return Ok(());
        }
        if self.ending.is_over() {
            return Ok(());
        }
        let told = self.guardian.kill();
        let cut = self.leaf.as_ref().map(Leaf::kill);
        let was_cut = matches!(cut, Ok(Ok(())));
        self.guardian.resume();
        if !self.is_guardian_over() {
            let guardian = sys::see(self.guardian.pid());
            let is_held = guardian.is_some_and(|seen| seen.state == ProcessState::Traced);
            if is_held {
                self.kill_descendants();
            }
            // Its death is heard like any other.
            if decide::may_replace(is_held, was_cut)
                && let Err(error) = self.guardian.abandon()
            {
                sys::shielded(|| {
                    tracing::warn!(%error, "a guardian that a tracer holds cannot be replaced");
                });
            }
        }
        if let Ok(Err(error)) = &cut {
            sys::shielded(|| tracing::warn!(%error, "a cgroup cannot be killed"));
        }
        if was_cut { Ok(()) } else { told }
    }

    pub(super) fn is_guardian_over(&self) -> bool {
        // The watcher may not have heard yet, and where SIGCHLD is ignored or
        // stolen, the number is free from the guardian's end on.
        self.guardian_over.load(Ordering::Relaxed) || self.guardian.wait_exit(Duration::ZERO)
    }

    pub(super) fn main_pid(&self) -> Option<u32> {
        self.started.borrow().and_then(Result::ok)
    }

    /// When the main process started, in clock ticks since boot.
    pub(super) fn start_time(&self) -> Option<u64> {
        self.start_time.get().copied().flatten()
    }

    pub(super) fn lock_entry(&self) -> MutexGuard<'_, Option<Entry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
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
        match self.server.main_pid() {
            Some(pid) => ServerIdentity::process(pid, self.server.start_time()),
            // It was killed before it could say.
            None => ServerIdentity::Other(format!("guardian {}", self.server.guardian.pid())),
        }
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(self.server.containment.clone())
            .with_stdin_eof()
            .with_polite_signal()
    }

    async fn exited(&self) -> ExitStatus {
        self.server.ending.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let asked = self.server.ask();
        asked.map_err(|error| StepError::new("tell the guardian to send SIGTERM", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let forced = self.server.force();
        forced.map_err(|error| StepError::new("tell the guardian to send SIGKILL", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.server.ending.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        if self.server.ending.is_proven() {
            return Ok(Vec::new());
        }
        const ACTION: &str = "look for its processes";
        // Reading `/proc` may take long, and some of it as long as a process likes.
        let server = Arc::clone(&self.server);
        let alive = blocking(move || server.who_lives()).await;
        let alive = alive.map_err(|error| StepError::new(ACTION, error))?;
        alive.map_err(|error| StepError::new(ACTION, error))
    }

    fn kill_now(&self) {
        if let Err(error) = self.server.force() {
            // Also called while a panic unwinds, where another one would abort.
            sys::shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "the guardian cannot be told");
            });
        }
    }
}

#[cfg(all(test, guardian_available))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use mcp_lifecycle_core::launch::Reach;

    use super::*;
    use crate::guardian::process::protocol::{MESSAGE_MAX, Report};
    use crate::guardian::process::{self, Received, SpawnRequest};

    /// A server that sleeps, and the pid of its process.
    fn server() -> (Arc<Server>, u32) {
        let null = File::open("/dev/null").unwrap();
        let request = SpawnRequest {
            program: c"/bin/sleep",
            argv: &[c"sleep".to_owned(), c"1000".to_owned()],
            ..SpawnRequest::nothing(null.as_fd())
        };
        let guardian = process::spawn(request).unwrap();
        let limit = Duration::from_secs(20);
        assert!(sys::ends_within(guardian.control(), limit).unwrap());
        let mut buffer = [0; MESSAGE_MAX];
        let started = guardian.receive(&mut buffer).unwrap();
        let Received::Report(Report::Started { pid }) = started else {
            panic!("{started:?}");
        };
        let containment = Containment::new("guardian", Reach::Tree);
        let none = Err("none".to_owned());
        (
            Server::new(guardian, 0, none, None, None, false, containment),
            pid,
        )
    }

    #[test]
    fn a_stranger_with_the_number_of_a_server_is_not_taken_for_it() {
        let (own, pid) = server();
        own.note_start(pid);
        assert_eq!(own.start_time(), Some(sys::see(pid).unwrap().start_time));
        // The number of the first was given out again before it was heard of.
        let (late, _) = server();
        late.note_start(std::process::id());
        assert_eq!(late.start_time(), None);
    }
}
