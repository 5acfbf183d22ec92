//! The parts of a pod's state that its lifecycle depends on.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};
use mcp_lifecycle_core::launch::ExitStatus;

pub(crate) const SERVER: &str = "server";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    pub(crate) node: Option<String>,
    pub(crate) phase: String,
    /// Reason of the pod's phase: `Evicted`, `OutOfcpu`.
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) unschedulable: Option<String>,
    pub(crate) deleting: bool,
    /// Its object would be gone without finalizers.
    pub(crate) finished: bool,
    pub(crate) kept: bool,
    /// It was given up by another component than its kubelet.
    pub(crate) disrupted: bool,
    /// The number of containers in its specification, of any kind.
    pub(crate) expected: usize,
    pub(crate) containers: Vec<Container>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Its ID in the node's runtime; `None` if it was never created.
    pub(crate) id: Option<String>,
    pub(crate) state: State,
    pub(crate) restarts: i32,
    /// An init container that must end before the others start, and is not restarted.
    pub(crate) goes_first: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Waiting {
        reason: String,
        message: String,
    },
    Running,
    /// It ran, and its kubelet no longer finds it. That alone is no end, since the kubelet may
    /// start another one; with `in_deletion` it does not.
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

    /// Returns the server's container, once the kubelet reports it.
    pub(crate) fn server(&self) -> Option<&Container> {
        self.named(SERVER)
    }

    /// Carries over earlier knowledge of containers: their IDs, and the end of those that were lost
    /// during a deletion.
    ///
    /// A kubelet of 1.20 may remove the container of a deleted pod before it reports the end. It has
    /// ended if it ran while the deletion was known and was not restarted since, or if the kubelet's
    /// message says so (1.20, `convertToAPIContainerStatuses`).
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

    pub(crate) fn exit(&self) -> Option<ExitStatus> {
        match self.server()?.state {
            State::Terminated { exit, .. } => Some(exit),
            _ => None,
        }
    }

    pub(crate) fn all_terminated(&self) -> bool {
        self.all(Container::has_terminated)
    }

    pub(crate) fn all(&self, is: impl Fn(&Container) -> bool) -> bool {
        self.containers.len() >= self.expected.max(1) && self.containers.iter().all(is)
    }

    /// Returns the failed init container, after which no other container is started. A failed pod's
    /// phase is final.
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

    /// Returns whether an end was inferred rather than reported by the kubelet.
    pub(crate) fn is_inferred(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.state.is_inferred())
    }

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

    pub(crate) fn is_uncreated(&self) -> bool {
        self.id.is_none() && matches!(self.state, State::Waiting { .. })
    }

    pub(crate) fn has_terminated(&self) -> bool {
        matches!(self.state, State::Terminated { .. })
    }
}

/// Reason of a container that the kubelet no longer finds.
const NOT_FOUND: &str = "ContainerStatusUnknown";

/// The kubelet's message for a container that ran in a pod under deletion.
const IN_DELETION: &str = "when the pod was deleted";

/// Our own reason: no kubelet's has a space.
const INFERRED: &str = "not found by its kubelet";

impl State {
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
            // It has ended with an unknown status.
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
