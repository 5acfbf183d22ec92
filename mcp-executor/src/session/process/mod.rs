//! One process of a session: its pumps, its log, its end.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{BoxRead, LaunchedServer, ProcessTerminator, StepError};
use mcp_lifecycle_core::lock::Lock;
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::Session;
use crate::audit::Audit;
use crate::doubts::{Doubts, until_gone};
use crate::event::Event;
use crate::limits::Limits;
use crate::log::Log;
use crate::protocol::RequestId;
use crate::protocol::process::{StartParams, WriteParams};
use crate::quota::{Grant, Portion};
use crate::stdin::{Answers, Input, StdinQueue, Verdict};
use crate::wire::{wire_code, wire_proof};

/// Grace of the descendants of a plain client's process after its main process exited.
const STRAGGLERS: Duration = Duration::from_secs(2);

pub(crate) struct Process {
    pub(crate) id: String,
    pub(crate) program: String,
    pub(crate) started: Instant,
    pub(crate) terminator: Arc<dyn ProcessTerminator>,
    handle: ServerHandle,
    session: Weak<Session>,
    session_id: String,
    audit: Arc<Audit>,
    doubts: Arc<Doubts>,
    pub(crate) portion: Arc<Portion>,
    limits: Arc<Limits>,
    /// Its client supports our extensions: it has its own ladder and acknowledges output.
    extended: bool,
    proven: Arc<AtomicBool>,
    pub(crate) log: Lock<Log>,
    stdin: Lock<Input>,
    pub(crate) room: Notify,
    pub(crate) changed: Notify,
    pub(crate) queued: AtomicBool,
    streams_open: Lock<u8>,
    ended: AtomicBool,
    /// The last of its client's signals that was carried out; locked during one.
    asked: tokio::sync::Mutex<Option<u64>>,
}

impl Process {
    /// Takes over a launched server; its output is pumped elsewhere.
    pub(crate) fn adopt(
        params: &StartParams,
        launched: LaunchedServer,
        session: &Arc<Session>,
        place: OwnedSemaphorePermit,
    ) -> (Arc<Self>, BoxRead, Option<BoxRead>) {
        let id = params.process_id.clone();
        let program = params.argv.first().cloned().unwrap_or_default();
        let parts = launched.into_parts();
        let identity = parts.terminator.identity();
        session.audit.started(&id, &program, &identity);
        let (handle, stdin) = ServerHandle::new(&id, parts.stdin, Arc::clone(&parts.terminator));
        let grant = || Grant::of(&session.portion);
        let (keep, window) = session.output_limits();
        let mut queue = StdinQueue::new(grant());
        if session.is_extended() {
            queue = queue.in_order();
        }
        if !params.pipe_stdin {
            queue.close();
        }
        let process = Arc::new(Self {
            id,
            program,
            started: Instant::now(),
            terminator: parts.terminator,
            handle,
            proven: Arc::default(),
            log: Lock::new(Log::new(keep, window, grant())),
            stdin: Lock::new(Input::new(queue, stdin)),
            session: Arc::downgrade(session),
            session_id: session.id.clone(),
            audit: Arc::clone(&session.audit),
            doubts: Arc::clone(&session.doubts),
            portion: Arc::clone(&session.portion),
            limits: Arc::clone(&session.limits),
            extended: session.is_extended(),
            room: Notify::new(),
            changed: Notify::new(),
            queued: AtomicBool::new(false),
            streams_open: Lock::new(1 + u8::from(parts.stderr.is_some())),
            ended: AtomicBool::new(false),
            asked: tokio::sync::Mutex::default(),
        });
        tokio::spawn(Arc::clone(&process).feed());
        tokio::spawn(Arc::clone(&process).watch(place));
        (process, parts.stdout, parts.stderr)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.log.lock().has_exited()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn write(&self, id: RequestId, params: WriteParams) -> Verdict {
        let Limits {
            stdin_queue,
            max_frame,
            ..
        } = *self.limits;
        let limit = stdin_queue.saturating_add(max_frame);
        let mut input = self.stdin.lock();
        let verdict = input.queue.write(id, params, limit);
        let answers = input.write_now();
        drop(input);
        self.answer(answers);
        verdict
    }

    /// Returns whether refused input is to be repeated by its client.
    pub(crate) fn is_input_behind(&self) -> bool {
        self.stdin.lock().queue.is_behind()
    }

    pub(crate) fn close_stdin(&self) {
        let mut input = self.stdin.lock();
        input.queue.close();
        let answers = input.write_now();
        drop(input);
        self.answer(answers);
    }

    pub(crate) fn acknowledge(&self, seq: u64, stdout: u64, stderr: u64) {
        self.log.lock().acknowledge(seq, stdout, stderr);
        self.room.notify_waiters();
        self.retire();
    }

    /// Drops sent output that is kept for a plain client's reads.
    pub(crate) fn forget_sent(&self) {
        if self.log.lock().forget_sent() {
            self.room.notify_waiters();
        }
    }

    /// Frees memory of its session, as far as possible.
    pub(crate) fn make_room(&self, bytes: usize) {
        if let Some(session) = self.session.upgrade() {
            session.make_room(bytes);
        }
    }

    /// Drops its output, since its client is gone for good.
    pub(crate) fn abandon(&self) {
        self.log.lock().discard();
        self.room.notify_waiters();
    }

    /// Sends SIGTERM to its tree, unless this client's signal or a later one was already carried
    /// out.
    pub(crate) async fn request_end(&self, signal: Option<u64>) -> Result<(), StepError> {
        let mut asked = self.asked.lock().await;
        if signal.is_some() && signal <= *asked {
            return Ok(());
        }
        self.terminator.request_end().await?;
        *asked = signal.or(*asked);
        Ok(())
    }

    pub(crate) async fn end(&self, policy: &TerminationPolicy, reason: EndReason) {
        if let Err(error) = self.handle.terminate(policy, reason).await {
            tracing::warn!(%error, "a process of a client is not proven gone");
            self.doubt();
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        let log = self.log.lock();
        match self.extended {
            true => self.has_ended() && log.is_drained(),
            false => log.is_closed() && !log.has_unsent(),
        }
    }

    pub(crate) fn push(self: &Arc<Self>, event: Event) {
        self.log.lock().push(event);
        self.changed.notify_waiters();
        if let Some(session) = self.session.upgrade() {
            session.wake(self);
        }
    }

    /// Writes queued input to the pipe whenever it has room again.
    async fn feed(self: Arc<Self>) {
        poll_fn(|cx| {
            let mut answers = Answers::new();
            let poll = self.stdin.lock().poll(cx, &mut answers);
            self.answer(answers);
            poll
        })
        .await;
    }

    fn answer(&self, answers: Answers) {
        if let Some(session) = self.session.upgrade() {
            for (id, status) in answers {
                session.answer_write(&id, status);
            }
        }
    }

    fn doubt(&self) {
        self.doubts.add(&self.session_id, &self.proven);
    }

    pub(crate) fn part_done(self: &Arc<Self>) {
        let left = {
            let mut open = self.streams_open.lock();
            let left = *open;
            *open = left.saturating_sub(1);
            left
        };
        if left == 0 {
            self.push(Event::Closed);
            self.retire();
        }
    }

    /// Waits for the exit of the main process and the proof that everything is gone.
    async fn watch(self: Arc<Self>, place: OwnedSemaphorePermit) {
        let exit = self.terminator.exited().await;
        self.push(Event::Exited(Some(wire_code(exit))));
        self.part_done();
        let end = async {
            if self.extended {
                // Its client's ladder has the only clock.
                return std::future::pending().await;
            }
            tokio::time::sleep(STRAGGLERS).await;
            self.end(&self.limits.orphans, EndReason::ServerExited)
                .await;
        };
        let proof = tokio::select! {
            proof = self.terminator.gone() => proof,
            () = end => self.terminator.gone().await,
        };
        let (ran, proven) = (self.started.elapsed(), proof.is_ok());
        if proven {
            self.doubts.dispel(&self.proven);
            drop(place);
        } else {
            self.doubt();
            let (terminator, doubts) = (Arc::clone(&self.terminator), Arc::clone(&self.doubts));
            let proven = Arc::clone(&self.proven);
            tokio::spawn(until_gone(terminator, doubts, proven, place));
        }
        self.audit.ended(&self.id, &self.program, exit, proven, ran);
        if self.extended {
            self.push(Event::Gone(wire_proof(&self.id, proof)));
        }
        self.ended.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.close_stdin();
        self.retire();
        if !self.extended {
            let (retention, process) = (self.limits.retention, Arc::downgrade(&self));
            drop(self);
            forget_after(retention, process).await;
        }
    }

    /// Forgets it once the client has acknowledged everything.
    fn retire(&self) {
        let over = self.has_ended() && {
            let log = self.log.lock();
            log.is_closed() && log.is_drained()
        };
        if over
            && self.extended
            && let Some(session) = self.session.upgrade()
        {
            session.remove(self);
        }
    }
}

/// Forgets an ended process of a plain client, which has this time to read its output after all of
/// it was sent.
async fn forget_after(retention: Duration, process: Weak<Process>) {
    loop {
        tokio::time::sleep(retention).await;
        let process = process.upgrade();
        let Some((session, process)) = process.and_then(|it| Some((it.session.upgrade()?, it)))
        else {
            return;
        };
        if !process.log.lock().has_unsent() {
            return session.remove(&process);
        }
    }
}
