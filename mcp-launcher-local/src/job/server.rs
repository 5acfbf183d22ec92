//! One server in its job: the primitives that end it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};
use mcp_lifecycle_core::lock::Lock;
use mcp_tree::conclusion::Proof;
use mcp_tree::ending::Ending;
use tokio::sync::oneshot;

use crate::sys::{Heard, Job, Process, Start, Wait, shielded};

#[derive(Debug)]
pub(super) struct JobServer {
    held: Arc<Held>,
    containment: Containment,
}

/// The state of a server, which the port's thread shares until nothing is left.
#[derive(Debug)]
struct Held {
    job: Job,
    leader: Process,
    state: Lock<State>,
    ending: Ending,
}

#[derive(Debug, Default)]
struct State {
    heard: Option<Heard>,
    /// The waits for the leader, and for one process that outlives it.
    waits: Vec<Wait>,
    /// The other processes at the last look, by pid.
    known: BTreeMap<u32, String>,
    swept: BTreeMap<u32, String>,
}

impl JobServer {
    /// Starts a server. If that fails, the job ends the processes that were started.
    pub(super) fn start(start: Start<'_>, job: Job, containment: Containment) -> io::Result<Self> {
        let known: Arc<OnceLock<Arc<Held>>> = Arc::default();
        let callback = Arc::clone(&known);
        let heard = Heard::of(&job, move || {
            if let Some(held) = callback.get() {
                held.look();
            }
        })?;
        let leader = start.inside(&job)?;
        let state = State {
            waits: vec![leader.wait(&heard)?],
            heard: Some(heard),
            ..State::default()
        };
        let held = Arc::new(Held {
            job,
            leader,
            state: Lock::new(state),
            ending: Ending::new(),
        });
        let _ = known.set(Arc::clone(&held));
        // The job may have reported before the callback was known.
        held.look();
        Ok(Self { held, containment })
    }
}

impl Held {
    fn look(self: &Arc<Self>) {
        if self.ending.is_proven() || !self.note_exit() {
            return;
        }
        match self.job.active() {
            Ok(0) => self.is_gone(),
            Ok(_) => self.wait_for_somebody(),
            Err(error) => self.is_lost(&error),
        }
    }

    fn note_exit(&self) -> bool {
        if self.ending.has_exited() {
            return true;
        }
        if !self.leader.has_ended() {
            return false;
        }
        let code = self.leader.exit_code().ok();
        let status = code.map_or(ExitStatus::Unknown, |code| {
            ExitStatus::Code(code.cast_signed())
        });
        self.ending.publish(Some(status), None);
        true
    }

    fn is_gone(&self) {
        let (heard, waits, swept) = {
            let mut state = self.state.lock();
            // Kept in place: either of two threads may publish the proof first.
            let swept = state.swept.clone();
            (state.heard.take(), std::mem::take(&mut state.waits), swept)
        };
        let swept = swept
            .into_iter()
            .map(|(pid, name)| Remnant::process(pid, name));
        let gone = Gone::proven_by(Evidence::JobEmpty).swept(swept);
        self.ending.publish(None, Some(Proof::Gone(gone)));
        drop((heard, waits));
    }

    fn is_lost(&self, error: &io::Error) {
        shielded(|| tracing::error!(%error, "a job object does not answer"));
        let why = format!("the job object does not answer: {error}");
        self.ending.publish(None, Some(Proof::Lost(why.into())));
    }

    /// Waits for the end of one process: the job's report that it is empty may never arrive.
    fn wait_for_somebody(&self) {
        let members = self.members();
        let mut state = self.state.lock();
        state.known = names(&members);
        let Some(heard) = &state.heard else { return };
        // None if all are about to end: then the job reports.
        let wait = members.iter().find_map(|member| member.wait(heard).ok());
        state.waits = wait.into_iter().collect();
    }

    fn members(&self) -> Vec<Process> {
        let members = self.job.members().unwrap_or_default();
        let others = members.into_iter().filter(|pid| *pid != self.leader.pid());
        others
            .filter_map(|pid| Process::in_job(pid, &self.job))
            .collect()
    }

    fn kill(self: &Arc<Self>) -> io::Result<()> {
        if self.ending.is_proven() {
            return Ok(());
        }
        // A lost proof is looked for again.
        self.ending.look_again();
        let mut swept = [0; 64];
        let mut count = 0;
        self.job.first_members(|pid| {
            if pid != self.leader.pid() {
                swept[count % swept.len()] = pid;
                count += 1;
            }
        });
        let ended = {
            // The names are set before another thread publishes the end.
            let state = &mut *self.state.lock();
            let ended = self.job.terminate();
            for pid in &swept[..count.min(swept.len())] {
                let name = state.known.get(pid).cloned();
                state.swept.insert(*pid, name.unwrap_or_default());
            }
            ended
        };
        self.look();
        ended
    }
}

fn names(members: &[Process]) -> BTreeMap<u32, String> {
    let name = |member: &Process| (member.pid(), member.name().unwrap_or_default());
    members.iter().map(name).collect()
}

#[async_trait]
impl ProcessTerminator for JobServer {
    fn identity(&self) -> ServerIdentity {
        let leader = &self.held.leader;
        ServerIdentity::process(leader.pid(), leader.start_time())
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::all(self.containment.clone())
    }

    async fn exited(&self) -> ExitStatus {
        self.held.ending.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        if self.held.ending.is_proven() || self.held.ending.has_exited() {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        let is_asked = self.held.leader.interrupt(|asked| drop(tell.send(asked)));
        let known = names(&self.held.members());
        self.held.state.lock().known = known;
        let asked = match is_asked {
            Ok(()) => told
                .await
                .unwrap_or_else(|lost| Err(io::Error::other(lost))),
            refused => refused,
        };
        asked.map_err(|error| StepError::new("send CTRL_BREAK to the server's console", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let ended = self.held.kill();
        ended.map_err(|error| StepError::new("end the job object", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.held.ending.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        if self.held.ending.is_proven() {
            return Ok(Vec::new());
        }
        let members = self.held.job.members();
        let members = members.map_err(|error| StepError::new("list the job object", error))?;
        let name = |pid| Process::in_job(pid, &self.held.job).and_then(|process| process.name());
        let named = members
            .into_iter()
            .map(|pid| Remnant::process(pid, name(pid).unwrap_or_default()));
        Ok(named.collect())
    }

    fn kill_now(&self) {
        if let Err(error) = self.held.kill() {
            // Also called while a panic unwinds, where another panic would abort.
            shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "the job object could not be ended");
            });
        }
    }
}
