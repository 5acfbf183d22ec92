//! One server in its process group: the primitives that end it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};

use super::state::State;
use crate::ending::{Ending, Proof};
use crate::identity::Cookie;
use crate::launcher::blocking;
use crate::orphans;
use crate::sys::{self, ExitEvent, Leader, Member, Pid, Signal};
use crate::worker::Worker;

/// The terminator of a server in a process group.
#[derive(Debug)]
pub(super) struct GroupServer {
    group: Arc<Group>,
    exit: Option<ExitEvent>,
    containment: Containment,
}

/// Shared with the watcher, so that the server is reaped whoever is dropped.
#[derive(Debug)]
struct Group {
    leader: Leader,
    start_time: Option<u64>,
    /// The mark that every process of it carries, unless it has wiped its environment.
    identity: Option<Cookie>,
    state: Mutex<State>,
    ending: Ending,
}

/// Lists groups: a machine may take long for it, and no forced end and no other
/// server waits for that.
static LISTINGS: Worker<Arc<Group>> = Worker::new("mcp-lifecycle-list", |groups| {
    for group in groups {
        sys::shielded(|| group.list());
    }
});

/// Starts the thread that lists groups, if it does not run yet.
pub(super) fn start() -> io::Result<()> {
    LISTINGS.start()
}

/// The reason there is no proof.
const HIDDEN: &str = "the kernel says that somebody is left in its process group, and /proc shows \
                      nobody (hidepid, and a process of another user's)";
const UNSEEN: &str = "the members of its process group cannot be listed (is /proc mounted?)";
const UNWATCHED: &str = "somebody is left in its process group and cannot be watched";

impl GroupServer {
    /// Takes the server over from `posix_spawn` and watches it.
    pub(super) fn watch(
        leader: Leader,
        identity: Option<Cookie>,
        containment: Containment,
    ) -> io::Result<Self> {
        let group = Arc::new(Group {
            start_time: sys::start_time(leader.pid()),
            leader,
            identity,
            state: Mutex::default(),
            ending: Ending::new(),
        });
        let watched = Arc::clone(&group);
        group.leader.watch(move || watched.leader_exited())?;
        // Only a shorter way: the watcher's thread sees the exit as well, also
        // when the runtime is being shut down at this moment.
        let exit = group.leader.exit_event().ok();
        Ok(Self {
            group,
            exit,
            containment,
        })
    }
}

impl GroupServer {
    /// Waits for what the exit leads to, and takes note of the exit itself if
    /// this task sees it before the watcher's thread does.
    async fn see_exit<T>(&self, end: impl Future<Output = T>) -> T {
        let mut end = std::pin::pin!(end);
        let Some(exit) = &self.exit else {
            return end.await;
        };
        tokio::select! {
            biased;
            end = &mut end => end,
            () = exit.happened() => {
                self.group.leader_exited();
                end.await
            }
        }
    }
}

impl Group {
    /// Notes the exit: the first to see it does, the watcher's thread or a task that waits.
    fn leader_exited(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().exit_seen, true) {
            return;
        }
        let status = match self.leader.peek() {
            Ok(status) => status.unwrap_or(ExitStatus::Unknown),
            Err(error) => {
                let pid = self.leader.pid().as_u32();
                sys::shielded(|| tracing::warn!(pid, %error, "exit status is lost"));
                ExitStatus::Unknown
            }
        };
        if self.leader.reaches_group() {
            self.reap();
        }
        let proof = self.proof_at_once();
        let is_proven = proof.is_some();
        self.ending.update(|known| {
            known.exit = Some(status);
            // The last of them may have ended while it was being looked for.
            known.proof = known.proof.take().or(proof);
        });
        if !is_proven {
            self.list_soon();
        }
    }

    /// On the watcher's thread: this one, who was in the group, has ended.
    fn has_ended(self: &Arc<Self>, pid: Pid) {
        {
            let mut state = self.lock();
            if state.waits_for == Some(pid) {
                state.waits_for = None;
            }
        }
        self.look_again();
    }

    /// Somebody has ended, or may have left the group, which nobody is told.
    fn look_again(self: &Arc<Self>) {
        if self.ending.is_proven() {
            return;
        }
        match self.proof_at_once() {
            Some(proof) => self.found(proof),
            None => self.list_soon(),
        }
    }

    fn found(&self, proof: Proof) {
        self.ending.update(|known| match known.proof {
            Some(Proof::Gone(_)) => {}
            _ => known.proof = Some(proof),
        });
    }

    /// The proof, if the kernel gives it without anybody being listed.
    fn proof_at_once(&self) -> Option<Proof> {
        let is_empty = self.lock().reaped && self.leader.group_is_empty();
        is_empty.then(|| Proof::Gone(self.account()))
    }

    /// Has it listed, on the thread for that.
    fn list_soon(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.lock().is_listed_soon, true) {
            LISTINGS.add(Arc::clone(self));
        }
    }

    /// Takes note of who is in the group. After the leader's exit: whether nobody
    /// is, or else a wait for somebody in it.
    fn list(self: &Arc<Self>) {
        self.lock().is_listed_soon = false;
        if self.ending.is_proven() {
            return;
        }
        if self.lock().is_killed
            && !self.leader.reaches_members()
            && let Some(identity) = &self.identity
        {
            orphans::end_group(self.leader.pid(), identity, Duration::ZERO);
        }
        let look = || sys::members_of_group(self.leader.pid());
        // A look that finds nobody may have been between a parent and its child.
        let members = look().and_then(|members| match members.is_empty() {
            true => look(),
            false => Ok(members),
        });
        if let Ok(members) = &members {
            self.lock().note(members, self.leader.pid());
        }
        if self.ending.has_exited()
            && let Some(proof) = self.proof_by(members)
        {
            self.found(proof);
        }
    }

    /// The proof that the group is empty, or that there can be none for now;
    /// otherwise somebody in it is waited for.
    fn proof_by(self: &Arc<Self>, members: io::Result<Vec<Member>>) -> Option<Proof> {
        let members = match members {
            Ok(members) => members,
            Err(error) => {
                sys::shielded(|| {
                    tracing::error!(%error, "the members of a group cannot be listed");
                });
                self.let_go();
                return Some(Proof::Lost(format!("{UNSEEN}: {error}").into()));
            }
        };
        let Some(first) = members.first() else {
            self.reap();
            return Some(match self.leader.group_is_anothers() {
                true => Proof::Lost(HIDDEN.into()),
                false => Proof::Gone(self.account()),
            });
        };
        // One at a time: whoever it is, its exit is when to look again. It may
        // also leave the group and live: each signal looks again as well.
        let pid = first.pid;
        if self.lock().waits_for.replace(pid) == Some(pid) {
            return None;
        }
        let group = self.leader.pid();
        let again = Arc::clone(self);
        let still = || Ok(sys::is_in_group(pid, group));
        match sys::watch_process(pid, still, move || again.has_ended(pid)) {
            Ok(()) => None,
            Err(error) => {
                self.lock().waits_for = None;
                sys::shielded(|| {
                    tracing::warn!(pid = pid.as_u32(), %error, "a member of a group cannot be watched");
                });
                Some(Proof::Lost(format!("{UNWATCHED}: {error}").into()))
            }
        }
    }

    /// The proof, with those who were swept, as far as they were seen.
    fn account(&self) -> Gone {
        self.reap();
        Gone::proven_by(Evidence::ProcessGroupEmpty).with_swept(self.lock().swept())
    }

    /// Lets the number of a group go that was ordered to end and cannot be listed; the
    /// order is given once more before that. One that was not has its graces first.
    fn let_go(&self) {
        let mut state = self.lock();
        if !state.is_killed || state.reaped {
            return;
        }
        if let Err(error) = self.leader.signal_group(Signal::Kill, false) {
            sys::shielded(|| tracing::warn!(%error, "SIGKILL could not be sent"));
        }
        self.leader.reap();
        state.reaped = true;
    }

    fn reap(&self) {
        let mut state = self.lock();
        if !state.reaped {
            self.leader.reap();
            state.reaped = true;
        }
    }

    /// Signals the whole group. Nobody is listed before that: who is in it was
    /// seen earlier, or is looked for later.
    fn signal(self: &Arc<Self>, signal: Signal) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.is_proven() {
            return Ok(());
        }
        if !self.is_known() {
            // Its number may be another group's: nobody is signalled. If it is nobody's, that
            // is the proof.
            if let Some(proof) = self.proof_at_once() {
                self.found(proof);
            }
            return Ok(());
        }
        // Where no proof was found, it is looked for again after this.
        self.ending.look_again();
        let has_exited = self.ending.has_exited();
        let sent = {
            // Held while signalling: nobody may reap the leader in between.
            let mut state = self.lock();
            state.is_killed |= signal == Signal::Kill;
            if has_exited || signal == Signal::Kill {
                state.sweep(self.leader.pid());
            }
            self.leader.signal_group(signal, state.reaped)
        };
        match has_exited {
            true => self.look_again(),
            false => self.list_soon(),
        }
        sent
    }

    /// Returns whether the number of the group still means this one, or it is not known
    /// by its number alone.
    fn is_known(&self) -> bool {
        self.leader.reaches_group() || !self.lock().reaped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ProcessTerminator for GroupServer {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::process(self.group.leader.pid().as_u32(), self.group.start_time)
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(self.containment.clone())
            .with_stdin_eof()
            .with_polite_signal()
    }

    async fn exited(&self) -> ExitStatus {
        self.see_exit(self.group.ending.exited()).await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let sent = self.group.signal(Signal::Terminate);
        sent.map_err(|error| StepError::new("send SIGTERM to the process group", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let sent = self.group.signal(Signal::Kill);
        sent.map_err(|error| StepError::new("send SIGKILL to the process group", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.see_exit(self.group.ending.gone()).await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        const LIST: &str = "list the members of the process group";
        if self.group.ending.is_proven() {
            return Ok(Vec::new());
        }
        if !self.group.is_known() {
            let why = "its process group has no number of its own any more";
            return Err(StepError::new(LIST, why));
        }
        let leader = self.group.leader.pid();
        let members = blocking(move || sys::members_of_group(leader)).await;
        let members: Vec<Member> = members
            .map_err(|error| StepError::new(LIST, error))?
            .map_err(|error| StepError::new(LIST, error))?;
        Ok(members
            .into_iter()
            .map(|member| Remnant::process(member.pid.as_u32(), member.name))
            .collect())
    }

    fn kill_now(&self) {
        if let Err(error) = self.group.signal(Signal::Kill) {
            // Also called while a panic unwinds, where another one would abort.
            sys::shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "SIGKILL could not be sent");
            });
        }
    }
}
