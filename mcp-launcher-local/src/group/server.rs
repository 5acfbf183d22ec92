//! One server in its process group: the primitives that end it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use mcp_lifecycle_core::error::StepError;
use mcp_lifecycle_core::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity,
    TerminationSemantics,
};

use crate::ending::{Ending, Proof};
use crate::launcher::blocking;
use crate::sys::{self, ExitEvent, Leader, Member, Pid, Signal};

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
    state: Mutex<State>,
    ending: Ending,
}

#[derive(Debug, Default)]
struct State {
    exit_seen: bool,
    reaped: bool,
    /// Somebody who is left, and whose end is waited for.
    waits_for: Option<Pid>,
    /// Members that outlived the leader and were signalled, by pid.
    swept: BTreeMap<Pid, String>,
}

/// Why there is no proof.
const HIDDEN: &str = "the kernel says that somebody is left in its process group, and /proc shows \
                      nobody (hidepid, and a process of another user's)";
const UNSEEN: &str = "the members of its process group cannot be listed (is /proc mounted?); \
                      whoever was left in it was sent SIGKILL";

impl GroupServer {
    /// Takes the server over from `posix_spawn` and watches it.
    pub(super) fn watch(leader: Leader, containment: Containment) -> io::Result<Self> {
        let group = Arc::new(Group {
            start_time: sys::start_time(leader.pid()),
            leader,
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
    /// Whoever sees it first: the watcher's thread, or a task that waits.
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
        let proof = self.look();
        self.ending.update(|known| {
            known.exit = Some(status);
            // The last of them may have ended while it was being looked for.
            known.proof = known.proof.take().or(proof);
        });
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
        if let Some(proof) = self.look() {
            // The first one has the names of those who were swept.
            self.ending.update(|known| match known.proof {
                Some(Proof::Gone(_)) => {}
                _ => known.proof = Some(proof),
            });
        }
    }

    /// The proof that the group is empty, or else a wait for somebody in it.
    fn look(self: &Arc<Self>) -> Option<Proof> {
        if self.lock().reaped && self.leader.group_is_empty() {
            return Some(Proof::Gone(self.account()));
        }
        let members = match sys::members_of_group(self.leader.pid()) {
            Ok(members) => members,
            Err(error) => {
                sys::shielded(|| {
                    tracing::error!(%error, "the members of a group cannot be listed");
                });
                self.kill_unseen();
                return Some(Proof::Lost(format!("{UNSEEN}: {error}").into()));
            }
        };
        let Some(first) = members.first().cloned() else {
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
        let still = move || sys::members_of_group(group).is_ok_and(|m| m.contains(&first));
        if let Err(error) = sys::watch_process(pid, still, move || again.has_ended(pid)) {
            self.lock().waits_for = None;
            let pid = pid.as_u32();
            sys::shielded(|| {
                tracing::warn!(pid, %error, "a member of a group cannot be watched");
            });
        }
        None
    }

    fn account(&self) -> Gone {
        self.reap();
        let swept = std::mem::take(&mut self.lock().swept);
        let swept = swept
            .into_iter()
            .map(|(pid, name)| Remnant::process(pid.as_u32(), name));
        Gone::proven_by(Evidence::ProcessGroupEmpty).with_swept(swept)
    }

    /// Whoever is left is killed, before the group's number is let go.
    fn kill_unseen(&self) {
        let mut state = self.lock();
        if let Err(error) = self.leader.signal_group(Signal::Kill, state.reaped) {
            sys::shielded(|| tracing::warn!(%error, "SIGKILL could not be sent"));
        }
        if !state.reaped {
            self.leader.reap();
            state.reaped = true;
        }
    }

    fn reap(&self) {
        let mut state = self.lock();
        if !state.reaped {
            self.leader.reap();
            state.reaped = true;
        }
    }

    fn signal(self: &Arc<Self>, signal: Signal) -> io::Result<()> {
        if self.ending.is_proven() || !self.is_known() {
            return Ok(());
        }
        // Where no proof was found, it is looked for again after this.
        self.ending.look_again();
        let exit_seen = self.lock().exit_seen;
        if exit_seen || signal == Signal::Kill {
            // Whoever is there besides the leader needs this signal to go.
            let others = sys::members_of_group(self.leader.pid()).unwrap_or_default();
            let leader = self.leader.pid();
            let others = others.into_iter().filter(|other| other.pid != leader);
            self.lock().swept.extend(others.map(|m| (m.pid, m.name)));
        }
        let sent = {
            // Held while signalling: nobody may reap the leader in between.
            let state = self.lock();
            self.leader.signal_group(signal, state.reaped)
        };
        if exit_seen {
            self.look_again();
        }
        sent
    }

    /// Whether the number of the group still means this one, or it is not known
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
        TerminationSemantics::full(self.containment.clone())
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
