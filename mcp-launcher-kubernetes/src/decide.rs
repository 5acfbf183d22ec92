//! Decisions about a pod, from observations. Pure.

use mcp_lifecycle_core::launch::ExitStatus;

use crate::facts::{Facts, State};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) last: Option<Facts>,
    /// A container was created at some time.
    pub(crate) created: bool,
    /// Its server was started, even if the kubelet has not reported it.
    pub(crate) ran: bool,
    /// Its graceful deletion was requested, so that the kubelet must confirm the end.
    pub(crate) ending: bool,
    pub(crate) object: Object,
    pub(crate) lost: Option<Lost>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) words: String,
    /// Final: a retry would fail, too.
    pub(crate) refused: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Object {
    #[default]
    Present,
    /// A deletion event arrived, with the last state.
    Deleted,
    /// It is absent; its last state is unknown.
    Missing,
}

impl Seen {
    pub(crate) fn told(&mut self, mut facts: Facts) {
        self.created |= !facts.none_created();
        // A forced deletion also sets the deletion time before it removes the object.
        self.ending |= facts.deleting && !facts.finished;
        facts.remember(self.last.as_ref());
        self.last = Some(facts);
        self.lost = None;
    }

    pub(crate) fn is_missing(&mut self) {
        if self.object == Object::Present {
            self.object = Object::Missing;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// Not started yet, with the kubelet's reason.
    Wait(Option<String>),
    /// No node fits, with the scheduler's reason.
    Unschedulable(String),
    Running,
    Ended,
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Image {
        reason: String,
        message: String,
    },
    Program(String),
    Container {
        reason: String,
        message: String,
    },
    /// The pod was rejected or ended by its node or a third party.
    Rejected {
        reason: String,
        message: String,
    },
    Deleted,
}

pub(crate) fn start(seen: &Seen) -> Start {
    if seen.object != Object::Present {
        return Start::Failed(Failure::Deleted);
    }
    let Some(pod) = &seen.last else {
        return Start::Wait(None);
    };
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    match pod.server().map(|server| &server.state) {
        Some(State::Running) if !pod.deleting => Start::Running,
        Some(State::Running) => Start::Failed(Failure::Deleted),
        Some(State::Terminated {
            reason, message, ..
        }) => match &**reason {
            // From containerd and CRI-O, and from dockershim.
            "StartError" | "RunContainerError" | "ContainerCannotRun" => {
                Start::Failed(Failure::Program(message.clone()))
            }
            _ => Start::Ended,
        },
        _ if pod.deleting => Start::Failed(Failure::Deleted),
        _ if pod.failed_init().is_some() => Start::Failed(init_failed(pod)),
        _ if matches!(&*pod.phase, "Failed" | "Succeeded") => {
            let (reason, message) = (words(&pod.reason), words(&pod.message));
            Start::Failed(Failure::Rejected { reason, message })
        }
        Some(State::Waiting { reason, message }) => waiting(reason, message),
        Some(State::Lost { .. }) => Start::Wait(None),
        None => match &pod.unschedulable {
            Some(words) => Start::Unschedulable(words.clone()),
            None => Start::Wait(None),
        },
    }
}

fn init_failed(pod: &Facts) -> Failure {
    let failed = pod.failed_init();
    let words =
        failed.map(|(init, exit)| format!("the init container `{}` ended: {exit}", init.name));
    let message = failed.and_then(|(init, _)| match &init.state {
        State::Terminated {
            reason, message, ..
        } => Some(format!("{reason} {message}").trim().to_owned()),
        _ => None,
    });
    Failure::Rejected {
        reason: words.unwrap_or_default(),
        message: message.unwrap_or_default(),
    }
}

/// Returns whether the kubelet has reported the server's start or never will.
pub(crate) fn is_told(seen: &Seen) -> bool {
    let server = seen.last.as_ref().and_then(Facts::server);
    let is_started = server.is_some_and(|server| !matches!(server.state, State::Waiting { .. }));
    is_started || seen.object != Object::Present
}

/// Judges a waiting container. Most reasons are transient.
fn waiting(reason: &str, message: &str) -> Start {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    match &*reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ErrImageNeverPull"
        | "InvalidImageName"
        | "ImageInspectError"
        | "RegistryUnavailable" => Start::Failed(Failure::Image { reason, message }),
        "RunContainerError" => Start::Failed(Failure::Program(message)),
        "CreateContainerConfigError" | "CreateContainerError" | "CrashLoopBackOff" => {
            Start::Failed(Failure::Container { reason, message })
        }
        _ => Start::Wait((!reason.is_empty()).then_some(reason)),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Alive,
    /// The server has ended; other containers have not.
    Server(ExitStatus),
    /// The kubelet reported that every container ended; the object still exists.
    Terminated(ExitStatus),
    /// Nothing is left, by this evidence.
    Gone(&'static str),
    /// The object is gone without a report that everything that ran has ended.
    Unproven(String),
}

const TERMINATED: &str =
    "its kubelet said of this uid that every container terminated, and the pod is deleted";
const INFERRED: &str = "its kubelet has not found a container any more that ran, while the deletion of this uid was known: \
     that every container terminated is inferred; the pod is deleted";
const INIT_FAILED: &str = "its kubelet said of this uid that an init container failed, after which it starts no other, \
     and that every container that was created terminated; the pod is deleted";
const REST_NEVER_STARTED: &str = "its kubelet said of this uid that every container that was created terminated, \
     and the pod was deleted before it had created the others";
const NEVER_PLACED: &str = "the pod was deleted before it was given to a node";
const NEVER_STARTED: &str =
    "the pod was rejected or deleted before its kubelet had created a container";

pub(crate) fn end(seen: &Seen) -> End {
    let Some(pod) = &seen.last else {
        return match seen.object {
            Object::Present => End::Alive,
            _ => End::Unproven("the pod was deleted before anything was told of it".to_owned()),
        };
    };
    // A failed init container lets nothing else start.
    let after_init = pod.failed_init().is_some() && all_created_terminated(seen, pod);
    let terminated = pod.all_terminated() || after_init;
    if seen.object == Object::Present {
        let exit = pod.exit();
        return match exit {
            _ if terminated => End::Terminated(exit.unwrap_or(ExitStatus::Unknown)),
            // Rejected by its kubelet: nothing runs or will run.
            _ if was_rejected(seen, pod) => End::Terminated(ExitStatus::Unknown),
            // No more reports will come, and only our finalizer keeps the object.
            _ if pod.kept && pod.finished && never_ran(seen, pod).is_some() => {
                End::Terminated(ExitStatus::Unknown)
            }
            Some(exit) => End::Server(exit),
            None => End::Alive,
        };
    }
    if terminated {
        return End::Gone(match pod.is_inferred() {
            true => INFERRED,
            false if pod.all_terminated() => TERMINATED,
            false => INIT_FAILED,
        });
    }
    if was_rejected(seen, pod) {
        return End::Gone(NEVER_STARTED);
    }
    match never_ran(seen, pod).filter(|_| seen.object == Object::Deleted) {
        Some(evidence) => End::Gone(evidence),
        None => End::Unproven(unproven(seen, pod)),
    }
}

/// Returns evidence that no container of a deleted pod ever started.
fn never_ran(seen: &Seen, pod: &Facts) -> Option<&'static str> {
    if pod.node.is_none() {
        return Some(NEVER_PLACED);
    }
    let was_ending = seen.ending && !pod.disrupted;
    match was_ending {
        true if !seen.created => Some(NEVER_STARTED),
        true if all_created_terminated(seen, pod) => Some(REST_NEVER_STARTED),
        _ => None,
    }
}

fn all_created_terminated(seen: &Seen, pod: &Facts) -> bool {
    !seen.ran && pod.all(|container| container.has_terminated() || container.is_uncreated())
}

fn was_rejected(seen: &Seen, pod: &Facts) -> bool {
    // The kubelet reports these before it kills what runs, and old ones omit the containers.
    let ending = [
        "Evicted",
        "DeadlineExceeded",
        "Preempting",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
    ];
    let reason = pod
        .reason
        .as_deref()
        .filter(|reason| !ending.contains(reason));
    let by_kubelet = pod.phase == "Failed" && reason.is_some() && !pod.disrupted;
    by_kubelet && !seen.created
}

fn unproven(seen: &Seen, pod: &Facts) -> String {
    let how = match seen.object {
        Object::Deleted => "was deleted by force",
        _ => "is gone",
    };
    let node = pod.node.as_deref().unwrap_or("(none known)");
    let ids = pod.containers.iter();
    let ids: Vec<&str> = ids
        .filter(|container| !container.has_terminated())
        .filter_map(|container| container.id.as_deref())
        .collect();
    let containers = match ids.is_empty() {
        true => format!(
            "its containers (last seen: {}, {:?})",
            pod.phase,
            pod.server()
        ),
        false => format!("container {}", ids.join(", ")),
    };
    format!(
        "the pod (uid {}) {how}, and node {node} had not confirmed that {containers} ended; \
         look there (crictl ps), or wait until the node is back",
        pod.uid
    )
}

#[cfg(test)]
mod tests;
