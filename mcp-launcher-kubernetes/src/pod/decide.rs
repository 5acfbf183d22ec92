//! The decisions about a pod. Pure: what was seen goes in, what follows comes out.

use mcp_lifecycle_core::launch::ExitStatus;

use super::facts::{Facts, State};

/// History of one pod, as far as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The last that was said of it.
    pub(crate) last: Option<Facts>,
    /// A container of it was created, whatever is said later.
    pub(crate) created: bool,
    /// Its server was started, whatever its kubelet has said so far.
    pub(crate) ran: bool,
    /// Its end was ordered, and not by force: its kubelet is waited for.
    pub(crate) ending: bool,
    pub(crate) object: Object,
    /// Why nothing is known at the moment.
    pub(crate) lost: Option<Lost>,
}

/// Why nothing is known of pods at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) words: String,
    /// It will not be otherwise.
    pub(crate) refused: bool,
}

/// The pod's object in the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Object {
    #[default]
    Present,
    /// Its deletion was told, with its last state.
    Deleted,
    /// It is not there, and its last state was not told.
    Missing,
}

impl Seen {
    /// Adds what was told of it.
    pub(crate) fn told(&mut self, mut facts: Facts) {
        self.created |= !facts.none_created();
        // An API server writes the time of a deletion by force, too, before it takes the object.
        self.ending |= facts.deleting && !facts.finished;
        facts.remember(self.last.as_ref());
        self.last = Some(facts);
        self.lost = None;
    }

    /// It is not there, and nobody has told how it went.
    pub(crate) fn is_missing(&mut self) {
        if self.object == Object::Present {
            self.object = Object::Missing;
        }
    }
}

/// Next step of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing yet; in the kubelet's words what it does.
    Wait(Option<String>),
    /// The scheduler has no node; in its words why.
    Unschedulable(String),
    /// The server runs, or what starts it.
    Running,
    /// It has ended before anybody was attached.
    Ended,
    /// It does not come up.
    Failed(Failure),
}

/// The reason a pod does not come up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The image cannot be had.
    Image { reason: String, message: String },
    /// The program cannot be run.
    Program(String),
    /// The kubelet cannot make the container.
    Container { reason: String, message: String },
    /// The pod was refused by its node, or ended by it, or by somebody else.
    Rejected { reason: String, message: String },
    /// It was deleted by somebody else.
    Deleted,
}

/// Decides what a launch does next.
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
            // Of containerd and CRI-O; and of dockershim.
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

/// Whether the kubelet has said of the server that it was started, or nobody will say any more.
pub(crate) fn is_told(seen: &Seen) -> bool {
    let server = seen.last.as_ref().and_then(Facts::server);
    let is_started = server.is_some_and(|server| !matches!(server.state, State::Waiting { .. }));
    is_started || seen.object != Object::Present
}

/// A container that waits: for most reasons it does so for a moment only.
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

/// How far the end of a pod has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Something of it may run.
    Alive,
    /// The server has ended; other containers of the pod have not.
    Server(ExitStatus),
    /// Every container has ended, as its kubelet says; the object is still there.
    Terminated(ExitStatus),
    /// Nothing of it is left, on this evidence.
    Gone(&'static str),
    /// The object is gone, and nobody has said that what ran has ended.
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

/// Decides how far the end has come.
pub(crate) fn end(seen: &Seen) -> End {
    let Some(pod) = &seen.last else {
        return match seen.object {
            Object::Present => End::Alive,
            _ => End::Unproven("the pod was deleted before anything was told of it".to_owned()),
        };
    };
    let terminated = pod.all_terminated() || init_has_failed(seen, pod);
    if seen.object == Object::Present {
        let exit = pod.exit();
        return match exit {
            _ if terminated => End::Terminated(exit.unwrap_or(ExitStatus::Unknown)),
            // Rejected by its kubelet: nothing runs, and nothing will.
            _ if was_rejected(seen, pod) => End::Terminated(ExitStatus::Unknown),
            // Nobody will say more of it, and its object stays for us.
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

/// The evidence that nothing of a pod whose deletion is told was ever started.
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

/// Whether an init container has failed, and what was created has ended: nothing else will be.
fn init_has_failed(seen: &Seen, pod: &Facts) -> bool {
    pod.failed_init().is_some() && all_created_terminated(seen, pod)
}

/// Whether the kubelet says of every container that it has ended, or that it was never created.
fn all_created_terminated(seen: &Seen, pod: &Facts) -> bool {
    !seen.ran && pod.all(|container| container.has_terminated() || container.is_uncreated())
}

fn was_rejected(seen: &Seen, pod: &Facts) -> bool {
    // These are written before what runs is killed, by old kubelets without its containers.
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

/// Names who did not say that it has ended.
fn unproven(seen: &Seen, pod: &Facts) -> String {
    let how = match seen.object {
        Object::Deleted => "was deleted by force",
        _ => "is not there any more",
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
