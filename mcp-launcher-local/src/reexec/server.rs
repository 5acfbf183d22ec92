//! The server of a guardian, as its host has it: the primitives that end it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};

use super::protocol::{Asked, Lines, Told};
use crate::ending::{Ending, Proof};
use crate::identity::Cookie;
use crate::launcher::blocking;
use crate::sys::{self, Descent, Pid};

/// A server, its guardian, and what the host itself has seen of it.
#[derive(Debug)]
pub(super) struct Guarded {
    pid: Pid,
    start_time: Option<u64>,
    guardian: Pid,
    control: UnixStream,
    /// The guardian has ended without a report: what the host has seen has to do.
    is_lost: AtomicBool,
    /// It was killed, which the guardian may not have heard any more.
    is_killed: AtomicBool,
    /// Forgotten when nobody is left.
    descent: Arc<Mutex<Option<Descent>>>,
    ending: Ending,
    containment: Containment,
}

/// The reason there is no proof.
const UNGUARDED: &str =
    "its guardian has ended without a report, so nobody knows of all of its descendants";

/// The time that a guardian has to exit after its last word.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

impl Guarded {
    /// The server of this guardian, which has not been reaped.
    pub(super) fn new(
        pid: Pid,
        guardian: Pid,
        control: UnixStream,
        identity: Option<&Cookie>,
        containment: Containment,
    ) -> Self {
        Self {
            pid,
            start_time: sys::start_time(pid),
            guardian,
            control,
            is_lost: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            descent: Arc::new(Mutex::new(Some(Descent::begin(pid, identity)))),
            ending: Ending::new(),
            containment,
        }
    }

    /// Hears what the guardian tells, and reaps it in the end. On a thread of its own.
    pub(super) fn hear(self: &Arc<Self>, mut lines: Lines) {
        let mut bytes = [0; 512];
        let mut has_report = false;
        loop {
            while let Some(line) = lines.next() {
                let told = Told::parse(&line);
                has_report |= matches!(told, Some(Told::Gone(_)));
                // Code of others: the wakers of those who wait.
                sys::shielded(|| self.told(told));
            }
            if lines.is_broken() {
                break;
            }
            match (&self.control).read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => lines.add(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // One that talks nonsense ends by this as well.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        sys::reap_within(self.guardian, EXIT_LIMIT);
        if !has_report {
            self.lost();
        }
    }

    fn told(&self, told: Option<Told>) {
        match told {
            Some(Told::Exited(status)) => self.ending.update(|known| known.exit = Some(status)),
            Some(Told::Gone(swept)) => {
                // Its number is somebody else's soon.
                drop(self.descent().take());
                let swept = swept
                    .into_iter()
                    .map(|(pid, name)| Remnant::process(pid, name));
                let gone = Gone::proven_by(Evidence::ProcessGroupEmpty).with_swept(swept);
                self.ending.update(|known| {
                    known.exit = known.exit.or(Some(ExitStatus::Unknown));
                    known.proof = Some(Proof::Gone(gone));
                });
            }
            Some(Told::Started(_) | Told::Failed(..)) | None => {
                sys::shielded(|| tracing::warn!("a guardian talks nonsense"));
            }
        }
    }

    /// The guardian has been killed. The server may live.
    fn lost(self: &Arc<Self>) {
        self.is_lost.store(true, Ordering::SeqCst);
        let pid = self.pid.as_u32();
        sys::shielded(|| tracing::warn!(server = pid, "the guardian of a server has ended"));
        let ended = Arc::clone(self);
        let watched = sys::watch_exit(self.pid, move || ended.ended_unseen());
        // By its number, which may be another process's by now: asked after that.
        let lives = self.descent().as_ref().is_some_and(Descent::server_lives);
        if watched.is_err() || !lives {
            self.ended_unseen();
        }
        if self.is_killed.load(Ordering::SeqCst) {
            self.signal_by_sight(Asked::Kill);
        }
    }

    fn ended_unseen(&self) {
        self.ending.update(|known| {
            known.exit = known.exit.or(Some(ExitStatus::Unknown));
            known.proof = known.proof.take().or(Some(Proof::Lost(UNGUARDED.into())));
        });
    }

    fn signal(&self, asked: Asked) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.is_proven() {
            return Ok(());
        }
        if asked == Asked::Kill {
            self.is_killed.store(true, Ordering::SeqCst);
        }
        let is_lost = self.is_lost.load(Ordering::SeqCst);
        if !is_lost && (&self.control).write_all(asked.line().as_bytes()).is_ok() {
            return Ok(());
        }
        self.signal_by_sight(asked);
        Ok(())
    }

    /// As without a guardian, and without the group: its number may be another's.
    fn signal_by_sight(&self, asked: Asked) {
        if let Some(descent) = &*self.descent() {
            match asked {
                Asked::Terminate => descent.ask_each_to_end(),
                Asked::Kill => descent.end(),
            }
        }
    }

    fn descent(&self) -> MutexGuard<'_, Option<Descent>> {
        lock(&self.descent)
    }
}

fn lock(descent: &Mutex<Option<Descent>>) -> MutexGuard<'_, Option<Descent>> {
    descent.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl ProcessTerminator for Guarded {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::process(self.pid.as_u32(), self.start_time)
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(self.containment.clone())
            .with_stdin_eof()
            .with_polite_signal()
    }

    async fn exited(&self) -> ExitStatus {
        self.ending.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let sent = self.signal(Asked::Terminate);
        sent.map_err(|error| StepError::new("ask the guardian to send SIGTERM", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let sent = self.signal(Asked::Kill);
        sent.map_err(|error| StepError::new("ask the guardian to kill the server", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.ending.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        const LIST: &str = "list who descends from the server";
        if self.ending.is_proven() {
            return Ok(Vec::new());
        }
        let descent = Arc::clone(&self.descent);
        let members = blocking(move || lock(&descent).as_ref().map(Descent::members)).await;
        let members = members
            .map_err(|error| StepError::new(LIST, error))?
            .unwrap_or_else(|| Ok(Vec::new()))
            .map_err(|error| StepError::new(LIST, error))?;
        let remnant = |member: sys::Member| Remnant::process(member.pid.as_u32(), member.name);
        Ok(members.into_iter().map(remnant).collect())
    }

    fn kill_now(&self) {
        if let Err(error) = self.signal(Asked::Kill) {
            // Also called while a panic unwinds, where another one would abort.
            sys::shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "it could not be killed");
            });
        }
    }
}
