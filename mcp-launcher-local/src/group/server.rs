//! One server in its process group: the primitives that end it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};
use mcp_lifecycle_core::lock::Lock;

use super::state::State;
use crate::blocking::blocking;
use crate::identity::Cookie;
use crate::orphans;
use crate::sys::{self, ExitEvent, Leader, Member, Signal};
use crate::worker::Worker;
use mcp_tree::conclusion::decide::Main;
use mcp_tree::conclusion::{Acts, Emptied, Event, FinalReport, Holder, Inside, Next};
use mcp_tree::ending::{Ending, exit_status};

#[derive(Debug)]
pub(super) struct GroupServer {
    group: Arc<Group>,
    exit: Option<ExitEvent>,
    containment: Containment,
}

/// The state of a server, which the watcher shares: it is reaped even when its owner is dropped.
#[derive(Debug)]
struct Group {
    leader: Leader,
    start_time: Option<u64>,
    identity: Option<Cookie>,
    state: Lock<State>,
    ending: Ending,
}

/// Lists groups on a thread of its own: a listing may take long, and must not delay an end.
static LISTINGS: Worker<Arc<Group>> = Worker::new("mcp-lifecycle-list", |groups| {
    for group in groups {
        sys::shielded(|| group.list());
    }
});

pub(super) fn start() -> io::Result<()> {
    LISTINGS.start()
}

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
            state: Lock::new(State::new()),
            ending: Ending::new(),
        });
        let watched = Arc::clone(&group);
        group.leader.watch(move || watched.leader_exited())?;
        // Optional: the watcher's thread sees the exit as well.
        let exit = ExitEvent::of(&group.leader).ok();
        Ok(Self {
            group,
            exit,
            containment,
        })
    }
}

impl GroupServer {
    /// Waits for `end`, and notes the exit if this task sees it before the watcher's thread does.
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
    /// Notes the exit, once.
    fn leader_exited(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.conclusion.has_begun() {
            return;
        }
        let peeked = self.leader.peek();
        if self.leader.reaches_group() {
            self.reap(&mut state);
        }
        let exit = match &peeked {
            Ok(Some(status)) => exit_status(*status),
            Ok(None) | Err(_) => ExitStatus::Unknown,
        };
        let acts = state.conclusion.on(Event::Reported(FinalReport {
            exit: Some(exit),
            gone: Gone::proven_by(Evidence::ProcessGroupEmpty),
            emptied: false,
            executed: true,
        }));
        drop(state);
        if let Err(error) = peeked {
            let pid = self.leader.pid().as_u32();
            sys::shielded(|| tracing::warn!(pid, %error, "exit status is lost"));
        }
        self.act(acts);
    }

    fn act(self: &Arc<Self>, acts: Acts) {
        let Acts { exit, proof, next } = acts;
        match next {
            Some(Next::Empty { exit, .. }) => self.look(exit),
            _ => self.ending.publish(exit, proof),
        }
    }

    /// Concludes if the kernel says that the group is empty; otherwise publishes the exit and has
    /// the members listed.
    fn look(self: &Arc<Self>, exit: Option<ExitStatus>) {
        if self.is_empty() {
            return self.emptied(Holder::Empty(Evidence::ProcessGroupEmpty));
        }
        self.ending.publish(exit, None);
        if !std::mem::replace(&mut self.state.lock().is_queued, true) {
            LISTINGS.add(Arc::clone(self));
        }
    }

    /// Looks again, also for a proof that was lost.
    fn look_again(self: &Arc<Self>) {
        if self.ending.look_again() {
            self.state.lock().conclusion.on(Event::Again);
        }
        self.look(None);
    }

    fn is_empty(&self) -> bool {
        self.state.lock().is_reaped && self.leader.group_is_empty()
    }

    fn emptied(self: &Arc<Self>, holder: Holder) {
        let acts = {
            let mut state = self.state.lock();
            let swept = state.swept();
            state.conclusion.on(Event::Emptied(Emptied {
                main: Main::Ended,
                holder,
                inside: Inside::these(swept.into_iter()),
            }))
        };
        self.act(acts);
    }

    fn fail(self: &Arc<Self>, why: String) {
        sys::shielded(|| tracing::error!(leader = self.leader.pid().as_u32(), "{why}"));
        self.emptied(Holder::Failed(why));
    }

    /// Lists the members. After the leader's exit, concludes or waits for a member's end.
    fn list(self: &Arc<Self>) {
        let is_killed = {
            let mut state = self.state.lock();
            state.is_queued = false;
            state.is_killed
        };
        if self.ending.is_proven() {
            return;
        }
        if is_killed
            && !self.leader.reaches_members()
            && let Some(identity) = &self.identity
        {
            orphans::end_group(self.leader.pid(), identity, Duration::ZERO);
        }
        let look = || sys::members_of_group(self.leader.pid());
        // A first look may miss a child that has just lost its parent.
        let members = look().and_then(|members| match members.is_empty() {
            true => look(),
            false => Ok(members),
        });
        if let Ok(members) = &members {
            self.state.lock().note(members, self.leader.pid());
        }
        if !self.ending.has_exited() {
            return;
        }
        match members {
            Ok(members) => self.conclude_by(&members),
            Err(error) => {
                self.let_go();
                self.fail(format!("{UNSEEN}: {error}"));
            }
        }
    }

    /// Concludes from a listing, or watches a member.
    fn conclude_by(self: &Arc<Self>, members: &[Member]) {
        let Some(first) = members.first() else {
            self.reap(&mut self.state.lock());
            return match self.leader.group_is_anothers() {
                true => self.fail(HIDDEN.to_owned()),
                false => self.emptied(Holder::Empty(Evidence::ProcessGroupEmpty)),
            };
        };
        // One member at a time: its exit triggers the next look, as each signal does.
        let pid = first.pid;
        if self.state.lock().waits_for.replace(pid) == Some(pid) {
            return;
        }
        let group = self.leader.pid();
        let again = Arc::clone(self);
        let still = || Ok(sys::is_in_group(pid, group));
        let has_ended = move || {
            again
                .state
                .lock()
                .waits_for
                .take_if(|waits_for| *waits_for == pid);
            again.look_again();
        };
        if let Err(error) = sys::watch_process(pid, still, has_ended) {
            self.state.lock().waits_for = None;
            self.fail(format!("{UNWATCHED}: process {}: {error}", pid.as_u32()));
        }
    }

    /// Gives up the number of a group that was killed and cannot be listed, after one more SIGKILL.
    fn let_go(&self) {
        let mut state = self.state.lock();
        if !state.is_killed || state.is_reaped {
            return;
        }
        if let Err(error) = self.leader.signal_group(Signal::Kill, false) {
            sys::shielded(|| tracing::warn!(%error, "SIGKILL could not be sent"));
        }
        self.reap(&mut state);
    }

    fn reap(&self, state: &mut State) {
        if !std::mem::replace(&mut state.is_reaped, true) {
            self.leader.reap();
        }
    }

    /// Signals the whole group, without listing it first.
    fn signal(self: &Arc<Self>, signal: Signal) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.is_proven() {
            return Ok(());
        }
        if !self.is_known() {
            // The number may be another group's by now. If no group has it, that is the proof.
            if self.is_empty() {
                self.look_again();
            }
            return Ok(());
        }
        let sent = {
            // The lock keeps the leader from being reaped before the signal.
            let mut state = self.state.lock();
            state.is_killed |= signal == Signal::Kill;
            if state.conclusion.has_begun() || signal == Signal::Kill {
                state.sweep(self.leader.pid());
            }
            self.leader.signal_group(signal, state.is_reaped)
        };
        self.look_again();
        sent
    }

    /// Returns whether a signal reaches this group and no other.
    fn is_known(&self) -> bool {
        self.leader.reaches_group() || !self.state.lock().is_reaped
    }
}

#[async_trait]
impl ProcessTerminator for GroupServer {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::process(self.group.leader.pid().as_u32(), self.group.start_time)
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::all(self.containment.clone())
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
