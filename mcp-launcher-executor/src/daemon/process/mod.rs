//! One process of a session: its pumps, its log, its end.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{BoxRead, LaunchedServer, ProcessTerminator, StepError};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, ServerStdin, TerminationPolicy};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::audit::Audit;
use super::budget::{Grant, Portion};
use super::doubts::Doubts;
use super::event::Event;
use super::limits::Limits;
use super::log::{Keep, Log};
use super::places::{self, Places};
use super::stdin::{StdinQueue, Verdict};
use crate::mutex::Mutex;
use crate::protocol::RequestId;
use crate::protocol::process::{StartParams, WriteParams, WriteStatus};
use crate::wire::{wire_code, wire_proof};

/// How long what a main process leaves behind may take to follow it, when its
/// client is a plain one, which can do nothing about it.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// Whose process it is: a session.
pub(super) trait Owner: Send + Sync {
    /// The process has something to send.
    fn wake(&self, process: &Arc<Process>);

    /// Answers a write of its client's.
    fn answer_write(&self, id: &RequestId, status: WriteStatus);

    /// Makes room for so many bytes, as far as copies of what was sent stand in the
    /// way, which a plain client might read again.
    fn make_room(&self, bytes: usize);

    /// Forgets this process, and no other that has its name by now; what it still has
    /// to say is thrown away.
    fn remove(&self, process: &Process);
}

/// The parts of a session that a process has.
pub(super) struct Member {
    pub(super) session_id: String,
    pub(super) owner: Weak<dyn Owner>,
    pub(super) audit: Arc<Audit>,
    pub(super) doubts: Arc<Doubts>,
    pub(super) portion: Arc<Portion>,
    pub(super) limits: Arc<Limits>,
    /// How output is kept, and how far it may run ahead.
    pub(super) keep: Keep,
    pub(super) window: usize,
    /// Its client has a ladder of its own, and tells what it has.
    pub(super) extended: bool,
}

pub(super) struct Process {
    pub(super) id: String,
    pub(super) program: String,
    pub(super) started: Instant,
    pub(super) terminator: Arc<dyn ProcessTerminator>,
    handle: ServerHandle,
    member: Member,
    /// Nothing of it is left.
    proven: Arc<AtomicBool>,
    pub(super) log: Mutex<Log>,
    stdin: Mutex<StdinQueue>,
    /// There is input, or an end of it.
    input: Notify,
    /// There may be room in the log.
    pub(super) room: Notify,
    /// Something happened: for reads that wait.
    pub(super) changed: Notify,
    /// It is in the session's queue of those with something to send.
    pub(super) queued: AtomicBool,
    streams_open: Mutex<u8>,
    ended: AtomicBool,
    /// The last of its client's signals that was carried out; locked while one is.
    asked: tokio::sync::Mutex<Option<u64>>,
}

impl Process {
    /// Takes over what was launched; its output is for others to pump.
    pub(super) fn adopt(
        params: &StartParams,
        launched: LaunchedServer,
        member: Member,
        places: Places,
    ) -> (Arc<Self>, BoxRead, Option<BoxRead>) {
        let id = params.process_id.clone();
        let program = params.argv.first().cloned().unwrap_or_default();
        let parts = launched.into_parts();
        let identity = parts.terminator.identity();
        member.audit.started(&id, &program, &identity);
        let (handle, stdin) = ServerHandle::new(&id, parts.stdin, Arc::clone(&parts.terminator));
        let grant = || Grant::of(&member.portion);
        let mut input = StdinQueue::new(grant());
        if member.extended {
            input = input.in_order();
        }
        let process = Arc::new(Self {
            id,
            program,
            started: Instant::now(),
            terminator: parts.terminator,
            handle,
            proven: Arc::default(),
            log: Mutex::new(Log::new(member.keep, member.window, grant())),
            stdin: Mutex::new(input),
            member,
            input: Notify::new(),
            room: Notify::new(),
            changed: Notify::new(),
            queued: AtomicBool::new(false),
            streams_open: Mutex::new(1 + u8::from(parts.stderr.is_some())),
            ended: AtomicBool::new(false),
            asked: tokio::sync::Mutex::default(),
        });
        if !params.pipe_stdin {
            process.close_stdin();
        }
        tokio::spawn(Arc::clone(&process).feed(stdin));
        tokio::spawn(Arc::clone(&process).watch(places));
        (process, parts.stdout, parts.stderr)
    }

    pub(super) fn portion(&self) -> &Arc<Portion> {
        &self.member.portion
    }

    fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.member.owner.upgrade()
    }

    /// Whether its main process has exited.
    pub(super) fn has_exited(&self) -> bool {
        self.log.lock().has_exited()
    }

    /// Returns whether it has ended with all that belongs to it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn write(&self, id: RequestId, params: WriteParams) -> Verdict {
        let Limits {
            stdin_queue,
            max_frame,
            ..
        } = *self.member.limits;
        let verdict = self.stdin.lock().write(id, params, stdin_queue, max_frame);
        self.input.notify_one();
        verdict
    }

    /// Whether input was refused that its client will repeat.
    pub(super) fn is_input_behind(&self) -> bool {
        self.stdin.lock().is_behind()
    }

    pub(super) fn close_stdin(&self) {
        self.stdin.lock().close();
        self.input.notify_one();
    }

    pub(super) fn acknowledge(&self, seq: u64, stdout: u64, stderr: u64) {
        self.log.lock().acknowledge(seq, stdout, stderr);
        self.room.notify_waiters();
        self.retire();
    }

    /// Forgets what was sent and is kept for a plain client to read again.
    pub(super) fn forget_sent(&self) {
        if self.log.lock().forget_sent() {
            self.room.notify_waiters();
        }
    }

    /// Makes room for so many bytes of its session, as far as that can be done.
    pub(super) fn make_room(&self, bytes: usize) {
        if let Some(owner) = self.owner() {
            owner.make_room(bytes);
        }
    }

    /// Its client has gone for good: its output goes nowhere.
    pub(super) fn abandon(&self) {
        self.log.lock().discard();
        self.room.notify_waiters();
    }

    /// Asks its tree to end, unless this signal of its client's, or a later one, did.
    pub(super) async fn request_end(&self, signal: Option<u64>) -> Result<(), StepError> {
        let mut asked = self.asked.lock().await;
        if signal.is_some() && signal <= *asked {
            return Ok(());
        }
        self.terminator.request_end().await?;
        *asked = signal.or(*asked);
        Ok(())
    }

    /// Ends it in order, whoever asked first.
    pub(super) async fn end(&self, policy: &TerminationPolicy, reason: EndReason) {
        if let Err(error) = self.handle.terminate(policy, reason).await {
            tracing::warn!(%error, "a process of a client is not proven gone");
            self.doubt();
        }
    }

    /// Whether its client has been told of its end, as far as it tells.
    pub(super) fn is_told(&self) -> bool {
        let log = self.log.lock();
        match self.member.extended {
            true => self.has_ended() && log.is_drained(),
            false => log.is_closed() && !log.has_unsent(),
        }
    }

    pub(super) fn push(self: &Arc<Self>, event: Event) {
        self.log.lock().push(event);
        self.changed.notify_waiters();
        if let Some(owner) = self.owner() {
            owner.wake(self);
        }
    }

    /// Input to the pipe.
    async fn feed(self: Arc<Self>, mut stdin: ServerStdin) {
        let broken = loop {
            let next = self.stdin.lock().pop();
            let Some(bytes) = next else {
                if self.stdin.lock().at_end() {
                    // The handle's writer closes when it is dropped.
                    let _ = stdin.shutdown().await;
                    break self.stdin.lock().broken();
                }
                self.input.notified().await;
                continue;
            };
            let admitted = self.stdin.lock().admit(self.member.limits.stdin_queue);
            self.answer(admitted, WriteStatus::Accepted);
            if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
                break self.stdin.lock().broken();
            }
        };
        self.answer(broken, WriteStatus::StdinClosed);
    }

    fn answer(&self, ids: Vec<RequestId>, status: WriteStatus) {
        if let Some(owner) = self.owner() {
            for id in ids {
                owner.answer_write(&id, status);
            }
        }
    }

    /// The connection: something was sent, so there may be room.
    pub(super) fn sent(&self) {
        self.room.notify_waiters();
    }

    /// It is not proven gone.
    fn doubt(&self) {
        let Member {
            doubts, session_id, ..
        } = &self.member;
        doubts.add(session_id, &self.proven);
    }

    /// One of: a stream is at its end, the main process has exited.
    pub(super) fn part_done(self: &Arc<Self>) {
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

    /// The main process's exit, and the proof that everything is gone.
    async fn watch(self: Arc<Self>, places: Places) {
        let exit = self.terminator.exited().await;
        self.push(Event::Exited(wire_code(exit)));
        self.part_done();
        let Member {
            extended,
            limits,
            audit,
            doubts,
            ..
        } = &self.member;
        let end = async {
            if *extended {
                // Its client's ladder has the only clock.
                return std::future::pending().await;
            }
            tokio::time::sleep(STRAGGLERS).await;
            self.end(&limits.orphans, EndReason::ServerExited).await;
        };
        let proof = tokio::select! {
            proof = self.terminator.gone() => proof,
            () = end => self.terminator.gone().await,
        };
        let (ran, proven) = (self.started.elapsed(), proof.is_ok());
        if proven {
            doubts.dispel(&self.proven);
            drop(places);
        } else {
            self.doubt();
            let (terminator, doubts) = (Arc::clone(&self.terminator), Arc::clone(doubts));
            let proven = Arc::clone(&self.proven);
            tokio::spawn(places::until_gone(terminator, doubts, proven, places));
        }
        audit.ended(&self.id, &self.program, exit, proven, ran);
        if *extended {
            self.push(Event::Gone(wire_proof(&self.id, proof)));
        }
        self.ended.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.close_stdin();
        self.retire();
        if !extended {
            let (retention, process) = (limits.retention, Arc::downgrade(&self));
            drop(self);
            forget_after(retention, process).await;
        }
    }

    /// Forgets it once the client has everything, as it tells.
    fn retire(&self) {
        let over = self.has_ended() && {
            let log = self.log.lock();
            log.is_closed() && log.is_drained()
        };
        if over
            && self.member.extended
            && let Some(owner) = self.owner()
        {
            owner.remove(self);
        }
    }
}

/// A plain client does not tell what it has: it gets the time to read it, from
/// when all of it was sent.
async fn forget_after(retention: Duration, process: Weak<Process>) {
    loop {
        tokio::time::sleep(retention).await;
        let process = process.upgrade();
        let Some((process, owner)) = process.and_then(|it| it.owner().map(|owner| (it, owner)))
        else {
            return;
        };
        if !process.log.lock().has_unsent() {
            return owner.remove(&process);
        }
    }
}
