//! What an API server says of a pod, as far as a lifecycle rests on it.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use mcp_lifecycle_core::launch::ExitStatus;

/// The container that is the server.
pub(crate) const SERVER: &str = "server";

/// A pod at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    /// The launch that its labels name.
    pub(crate) launch: Option<String>,
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
}

/// The states that a kubelet reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Waiting {
        reason: String,
        message: String,
    },
    Running,
    Terminated {
        exit: ExitStatus,
        reason: String,
        message: String,
    },
}

impl Facts {
    pub(crate) fn of(pod: Pod) -> Self {
        let labels = pod.metadata.labels.unwrap_or_default();
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
        let all = [
            status.init_container_statuses,
            status.container_statuses,
            status.ephemeral_container_statuses,
        ];
        Self {
            uid: pod.metadata.uid.unwrap_or_default(),
            launch: labels.get(crate::labels::LAUNCH).cloned(),
            node: spec.node_name.filter(|node| !node.is_empty()),
            phase: status.phase.unwrap_or_default(),
            reason: status.reason,
            message: status.message,
            unschedulable,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            disrupted: condition("DisruptionTarget", "True").is_some(),
            expected: spec.containers.len()
                + len(spec.init_containers.map(|all| all.len()))
                + len(spec.ephemeral_containers.map(|all| all.len())),
            containers: all
                .into_iter()
                .flatten()
                .flatten()
                .map(Container::of)
                .collect(),
        }
    }

    /// The container that is the server, once the kubelet speaks of it.
    pub(crate) fn server(&self) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.name == SERVER)
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
        let ended = |container: &Container| matches!(container.state, State::Terminated { .. });
        self.containers.len() >= self.expected.max(1) && self.containers.iter().all(ended)
    }

    /// Returns whether no container of it was ever created, as far as is told here.
    pub(crate) fn none_created(&self) -> bool {
        self.containers
            .iter()
            .all(|container| container.id.is_none())
    }
}

impl Container {
    fn of(status: ContainerStatus) -> Self {
        let last = status.last_state.and_then(|state| state.terminated);
        let id = status.container_id.filter(|id| !id.is_empty());
        Self {
            name: status.name,
            id: id.or_else(|| last.and_then(|last| last.container_id)),
            state: State::of(status.state.unwrap_or_default()),
        }
    }
}

impl State {
    fn of(state: ContainerState) -> Self {
        if let Some(ended) = state.terminated {
            let reason = ended.reason.unwrap_or_default();
            let exit = match (&*reason, ended.signal) {
                ("OOMKilled", _) => ExitStatus::OutOfMemory,
                // The kubelet did not find it any more: it has ended, nobody knows how.
                ("ContainerStatusUnknown", _) => ExitStatus::Unknown,
                (_, Some(signal)) if signal > 0 => ExitStatus::Signal(signal),
                _ => ExitStatus::from_shell_code(ended.exit_code.into()),
            };
            let message = ended.message.unwrap_or_default();
            return Self::Terminated {
                exit,
                reason,
                message,
            };
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
