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
use crate::blocking::blocking;
use crate::ending::{Ending, Proof, exit_status};
use crate::identity::Cookie;
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

/// Shared with the watcher, so that the server is reaped even if the terminator is dropped.
#[derive(Debug)]
struct Group {
    leader: Leader,
    start_time: Option<u64>,
    /// The mark of all its processes, unless one has cleared its environment.
    identity: Option<Cookie>,
    state: Mutex<State>,
    ending: Ending,
}

/// Lists groups on a thread of its own: it may take long, and must delay neither a forced end nor
/// another server.
static LISTINGS: Worker<Arc<Group>> = Worker::new("mcp-lifecycle-list", |groups| {
    for group in groups {
        sys::shielded(|| group.list());
    }
});

/// Starts the listing thread, unless it runs.
pub(super) fn start() -> io::Result<()> {
    LISTINGS.start()
}

/// The reasons why there is no proof.
const HIDDEN: &str = "the kernel reports a process in its process group, but /proc shows \
                      none (hidepid, and a process of another user)";
const UNSEEN: &str = "the members of its process group cannot be listed (is /proc mounted?)";
const UNWATCHED: &str = "a process left in its process group cannot be watched";

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
        // Optional: the watcher's thread sees the exit as well, also while the runtime shuts down.
        let exit = ExitEvent::of(&group.leader).ok();
        Ok(Self {
            group,
            exit,
            containment,
        })
    }
}

impl GroupServer {
    /// Waits for `end`. Notes the exit itself if this task sees it before the watcher's thread
    /// does.
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
    /// Notes the exit. The first observer runs it, the watcher's thread or a waiting task.
    fn leader_exited(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().exit_seen, true) {
            return;
        }
        let status = match self.leader.peek() {
            Ok(status) => status.map_or(ExitStatus::Unknown, exit_status),
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
            // The listing may have found the proof meanwhile.
            known.proof = known.proof.take().or(proof);
        });
        if !is_proven {
            self.list_soon();
        }
    }

    /// Notes on the watcher's thread that this member has ended.
    fn has_ended(self: &Arc<Self>, pid: Pid) {
        {
            let mut state = self.lock();
            if state.waits_for == Some(pid) {
                state.waits_for = None;
            }
        }
        self.look_again();
    }

    /// Looks again after an exit, or because a member may have left the group, which the kernel
    /// does not report.
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

    /// Returns the proof if the kernel gives it without a listing.
    fn proof_at_once(&self) -> Option<Proof> {
        let is_empty = self.lock().reaped && self.leader.group_is_empty();
        is_empty.then(|| Proof::Gone(self.account()))
    }

    /// Queues the group for the listing thread.
    fn list_soon(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.lock().is_listed_soon, true) {
            LISTINGS.add(Arc::clone(self));
        }
    }

    /// Notes the members. After the leader's exit, publishes the proof or waits for a member's end.
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
        // A first look may miss a child that has just lost its parent, so an empty result is
        // checked again.
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

    /// Returns the proof that the group is empty, or that there can be none for now; otherwise
    /// watches a member.
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
        // One member at a time: its exit triggers the next look. It may also leave the group and
        // live on, so each signal looks again too.
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

    /// Returns the proof, with the swept processes as far as they were seen.
    fn account(&self) -> Gone {
        self.reap();
        Gone::proven_by(Evidence::ProcessGroupEmpty).swept(self.lock().swept())
    }

    /// Gives up the number of a group that was killed and cannot be listed, after one more SIGKILL.
    /// A group that was not killed keeps it.
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

    /// Signals the whole group, without listing it first.
    fn signal(self: &Arc<Self>, signal: Signal) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.is_proven() {
            return Ok(());
        }
        if !self.is_known() {
            // The number may belong to another group by now, so no signal is sent. If no group has
            // it, that is the proof.
            if let Some(proof) = self.proof_at_once() {
                self.found(proof);
            }
            return Ok(());
        }
        // A lost proof is searched for again after the signal.
        self.ending.look_again();
        let has_exited = self.ending.has_exited();
        let sent = {
            // The lock keeps the leader from being reaped before the signal.
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

    /// Returns whether the group's number still means this group, or the kernel reaches it by
    /// descriptor.
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
            .stdin_eof()
            .polite_signal()
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
            let why = "the number of its process group may be reissued";
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
            // May run while a panic unwinds, where a second panic would abort.
            sys::shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "SIGKILL could not be sent");
            });
        }
    }
}
