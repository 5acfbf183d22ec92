//! Facts that an API server tells of a pod, as far as a lifecycle rests on them.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};
use mcp_lifecycle_core::launch::ExitStatus;

/// The container that is the server.
pub(crate) const SERVER: &str = "server";

/// A pod at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    /// The node that it was given to.
    pub(crate) node: Option<String>,
    pub(crate) phase: String,
    /// Why the pod as a whole is as it is: `Evicted`, `OutOfcpu`.
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    /// Why the scheduler has no node for it.
    pub(crate) unschedulable: Option<String>,
    /// Its end was ordered.
    pub(crate) deleting: bool,
    /// Its object would be gone, but for what keeps it.
    pub(crate) finished: bool,
    /// Our finalizer keeps its object.
    pub(crate) kept: bool,
    /// Somebody else than its kubelet has given it up.
    pub(crate) disrupted: bool,
    /// How many containers its specification has, of any kind.
    pub(crate) expected: usize,
    /// Those that the kubelet speaks of.
    pub(crate) containers: Vec<Container>,
}

/// A container at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Its id in the node's runtime; `None` if it was never created.
    pub(crate) id: Option<String>,
    pub(crate) state: State,
    /// How often it was started again.
    pub(crate) restarts: i32,
    /// An init container that has to end before any other is started, and is not started again.
    pub(crate) goes_first: bool,
}

/// The states that a kubelet reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Waiting {
        reason: String,
        message: String,
    },
    Running,
    /// It ran, and its kubelet has not found it any more. Alone that is no end: a pod that
    /// nobody deletes gets another one. One that says `in_deletion` starts none.
    Lost {
        in_deletion: bool,
    },
    Terminated {
        exit: ExitStatus,
        reason: String,
        message: String,
    },
}

impl Facts {
    pub(crate) fn of(pod: Pod) -> Self {
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let len = |count: Option<usize>| count.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let condition = |kind: &str, value: &str| {
            let mut all = conditions.iter();
            all.find(|condition| condition.type_ == kind && condition.status == value)
        };
        let unschedulable = condition("PodScheduled", "False")
            .filter(|condition| condition.reason.as_deref() == Some("Unschedulable"))
            .map(|condition| condition.message.clone().unwrap_or_default());
        let finalizers = pod.metadata.finalizers.unwrap_or_default();
        let deleting = pod.metadata.deletion_timestamp.is_some();
        let go_first = spec.init_containers.as_deref().unwrap_or_default();
        let go_first = |name: &str| {
            let mut all = go_first.iter();
            all.any(|init| init.name == name && init.restart_policy.is_none())
        };
        let all = [
            (status.init_container_statuses, true),
            (status.container_statuses, false),
            (status.ephemeral_container_statuses, false),
        ];
        let containers = all.into_iter().flat_map(|(statuses, is_init)| {
            let statuses = statuses.unwrap_or_default().into_iter();
            statuses.map(move |status| (status, is_init))
        });
        let containers = containers.map(|(status, is_init)| {
            let goes_first = is_init && go_first(&status.name);
            Container {
                goes_first,
                ..Container::of(status)
            }
        });
        let containers = containers.collect();
        Self {
            uid: pod.metadata.uid.unwrap_or_default(),
            node: spec.node_name.filter(|node| !node.is_empty()),
            phase: status.phase.unwrap_or_default(),
            reason: status.reason,
            message: status.message,
            unschedulable,
            deleting,
            finished: deleting && pod.metadata.deletion_grace_period_seconds == Some(0),
            kept: finalizers
                .iter()
                .any(|name| name == crate::labels::FINALIZER),
            disrupted: condition("DisruptionTarget", "True").is_some(),
            expected: spec.containers.len()
                + len(spec.init_containers.map(|all| all.len()))
                + len(spec.ephemeral_containers.map(|all| all.len())),
            containers,
        }
    }

    /// The container that is the server, once the kubelet speaks of it.
    pub(crate) fn server(&self) -> Option<&Container> {
        self.named(SERVER)
    }

    /// Takes over what was known of containers: the ids of those that are not named any more,
    /// and the end of those that were lost after their deletion was ordered.
    ///
    /// A kubelet of 1.20 removes the container of a pod that is deleted, at times before it has
    /// told of its end, and starts none in its place. That it ran while the deletion was known,
    /// and was not started since, tells this from a container that was lost before. So does the
    /// kubelet itself, in words that it has only where it knows of the deletion (1.20,
    /// `convertToAPIContainerStatuses`: "we will not be restarting the container").
    pub(crate) fn remember(&mut self, before: Option<&Self>) {
        let was_deleting = before.is_some_and(|before| before.deleting);
        for container in &mut self.containers {
            let known = before.and_then(|before| before.named(&container.name));
            if container.id.is_none()
                && let Some(known) = known
            {
                container.id.clone_from(&known.id);
            }
            let State::Lost { in_deletion } = container.state else {
                continue;
            };
            let same = known.map_or(0, |known| known.restarts) == container.restarts;
            let ran = known.is_some_and(|known| {
                was_deleting && known.state == State::Running || known.state.is_inferred()
            });
            let was_lost = known.is_some_and(|known| matches!(known.state, State::Lost { .. }));
            let is_told = in_deletion && self.deleting && !was_lost;
            if same && (ran || is_told) {
                container.state = State::inferred();
            }
        }
    }

    fn named(&self, name: &str) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.name == name)
    }

    /// How the server has ended, if its kubelet says so.
    pub(crate) fn exit(&self) -> Option<ExitStatus> {
        match self.server()?.state {
            State::Terminated { exit, .. } => Some(exit),
            _ => None,
        }
    }

    /// Returns whether the kubelet says of every container that it has ended.
    pub(crate) fn all_terminated(&self) -> bool {
        self.all(Container::has_terminated)
    }

    /// Returns whether the kubelet speaks of all containers, and all are so.
    pub(crate) fn all(&self, is: impl Fn(&Container) -> bool) -> bool {
        self.containers.len() >= self.expected.max(1) && self.containers.iter().all(is)
    }

    /// The init container whose failure keeps all that come after it from ever being started:
    /// the phase of a pod that has failed is final.
    pub(crate) fn failed_init(&self) -> Option<(&Container, ExitStatus)> {
        let mut all = self.containers.iter().filter(|init| init.goes_first);
        let failed = all.find_map(|init| match init.state {
            State::Terminated {
                exit: ExitStatus::Code(0) | ExitStatus::Unknown,
                ..
            } => None,
            State::Terminated { exit, .. } => Some((init, exit)),
            _ => None,
        });
        failed.filter(|_| self.phase == "Failed" && !self.disrupted)
    }

    /// Returns whether an end is inferred, and was not told by the kubelet.
    pub(crate) fn is_inferred(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.state.is_inferred())
    }

    /// Returns whether no container of it was ever created, as far as is told here.
    pub(crate) fn none_created(&self) -> bool {
        self.containers.iter().all(|container| {
            container.id.is_none() && !matches!(container.state, State::Lost { .. })
        })
    }
}

impl Container {
    fn of(status: ContainerStatus) -> Self {
        let last = status.last_state.and_then(|state| state.terminated);
        let id = status.container_id.filter(|id| !id.is_empty());
        let id = id.or_else(|| last.as_ref().and_then(|last| last.container_id.clone()));
        let state = State::of(status.state.unwrap_or_default());
        let not_found = last.filter(|last| last.reason.as_deref() == Some(NOT_FOUND));
        let state = match (state, not_found) {
            (State::Waiting { .. }, Some(last)) => State::Lost {
                in_deletion: last
                    .message
                    .is_some_and(|words| words.contains(IN_DELETION)),
            },
            (state, _) => state,
        };
        Self {
            name: status.name,
            id,
            state,
            restarts: status.restart_count,
            goes_first: false,
        }
    }

    /// Returns whether it was never created, as far as is told here.
    pub(crate) fn is_uncreated(&self) -> bool {
        self.id.is_none() && matches!(self.state, State::Waiting { .. })
    }

    pub(crate) fn has_terminated(&self) -> bool {
        matches!(self.state, State::Terminated { .. })
    }
}

/// The reason of a kubelet that did not find the container any more.
const NOT_FOUND: &str = "ContainerStatusUnknown";

/// Its words for a container that ran, where it carries out the deletion of the pod.
const IN_DELETION: &str = "when the pod was deleted";

/// A reason of ours: no kubelet has a space in one.
const INFERRED: &str = "not found by its kubelet";

impl State {
    /// The end of a container that its kubelet has removed itself.
    fn inferred() -> Self {
        Self::Terminated {
            exit: ExitStatus::Unknown,
            reason: INFERRED.to_owned(),
            message: String::new(),
        }
    }

    fn is_inferred(&self) -> bool {
        matches!(self, Self::Terminated { reason, .. } if reason == INFERRED)
    }

    fn terminated(ended: ContainerStateTerminated) -> Self {
        let reason = ended.reason.unwrap_or_default();
        let exit = match (&*reason, ended.signal) {
            ("OOMKilled", _) => ExitStatus::OutOfMemory,
            // It has ended, nobody knows how.
            (NOT_FOUND, _) => ExitStatus::Unknown,
            (_, Some(signal)) if signal > 0 => ExitStatus::Signal(signal),
            _ => ExitStatus::from_shell_code(ended.exit_code.into()),
        };
        let message = ended.message.unwrap_or_default();
        Self::Terminated {
            exit,
            reason,
            message,
        }
    }

    fn of(state: ContainerState) -> Self {
        if let Some(ended) = state.terminated {
            return Self::terminated(ended);
        }
        if state.running.is_some() {
            return Self::Running;
        }
        let waiting = state.waiting.unwrap_or_default();
        Self::Waiting {
            reason: waiting.reason.unwrap_or_default(),
            message: waiting.message.unwrap_or_default(),
        }
    }
}
