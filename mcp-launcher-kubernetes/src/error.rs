//! What goes wrong between us and a cluster.

use std::time::Duration;

use kube::core::Status;
use thiserror::Error;

use crate::pod::Failure;

/// The reason a step failed.
#[derive(Debug, Error)]
pub(crate) enum ClusterError {
    #[error(
        "no cluster: {0}; set KUBECONFIG, name a context, or run in a pod with a service account"
    )]
    NoCluster(String),
    #[error("no answer to {action} at {address}: {problem}")]
    Unreachable {
        action: String,
        address: String,
        problem: String,
    },
    #[error(
        "no right to {verb} {resource} in namespace {namespace}; a Role needs \
         verbs: [{verb}], resources: [{resource}]: {words}"
    )]
    Forbidden {
        verb: &'static str,
        resource: &'static str,
        namespace: String,
        words: String,
    },
    #[error("the namespace's quota is used up: {0}")]
    Quota(String),
    #[error("the cluster does not admit the {resource}: {words}")]
    Admission {
        resource: &'static str,
        words: String,
    },
    #[error("failed to {action}: {words} (HTTP {code})")]
    Api {
        action: String,
        code: u16,
        words: String,
        retry_after: Duration,
    },
    #[error("image `{image}` cannot be had: {reason}: {message}")]
    Image {
        image: String,
        reason: String,
        message: String,
    },
    #[error("the program cannot be run in the container: {0}")]
    Program(String),
    #[error("the container cannot be made: {reason}: {message}{}", hint(.message))]
    Container { reason: String, message: String },
    #[error("the pod was rejected or ended: {reason}: {message}")]
    Rejected { reason: String, message: String },
    #[error("the pod was deleted by somebody else while it started")]
    Deleted,
    #[error("the pod cannot be watched: {0}")]
    Unwatched(String),
    #[error("no node takes the pod: {0}")]
    Unschedulable(String),
    #[error("the streams of the pod cannot be had: {0}")]
    Attach(String),
    #[error("the supervised init cannot be used: {0}")]
    Init(String),
    #[error("a pod {0} is there that is not of this launch")]
    Stranger(String),
    #[error("the launch was cancelled")]
    Cancelled,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The commonest reason by far.
fn hint(message: &str) -> &'static str {
    match message.contains("runAsNonRoot") || message.contains("non-root") {
        true => "; give the pod `run_as_user`, or set `run_as_non_root` to false",
        false => "",
    }
}

/// What is done, for errors that name the right it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) namespace: &'a str,
    pub(crate) address: &'a str,
}

impl Action<'_> {
    fn words(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    /// An error of the client library, by what the user can do about it.
    pub(crate) fn failed(&self, error: kube::Error) -> ClusterError {
        match error {
            kube::Error::Api(status) => self.refused(*status),
            other => self.unreachable(mcp_lifecycle_core::launch::ErrorChain(&other).to_string()),
        }
    }

    pub(crate) fn unreachable(&self, problem: String) -> ClusterError {
        ClusterError::Unreachable {
            action: self.words(),
            address: self.address.to_owned(),
            problem,
        }
    }

    /// A refusal of the API server, by what it says.
    pub(crate) fn refused(&self, status: Status) -> ClusterError {
        let (code, words) = (status.code, status.message);
        let says = |text: &str| words.contains(text);
        let by_admission = says("admission webhook")
            || says("violates PodSecurity")
            || says("PodSecurityPolicy")
            || says("ValidatingAdmissionPolicy");
        match code {
            403 if says("exceeded quota") || says("failed quota") => ClusterError::Quota(words),
            _ if by_admission => ClusterError::Admission {
                resource: self.resource,
                words,
            },
            422 => ClusterError::Admission {
                resource: self.resource,
                words,
            },
            401 | 403 => ClusterError::Forbidden {
                verb: self.verb,
                resource: self.resource,
                namespace: self.namespace.to_owned(),
                words,
            },
            _ => {
                let after = status
                    .details
                    .map_or(0, |details| details.retry_after_seconds);
                ClusterError::Api {
                    action: self.words(),
                    code,
                    words,
                    retry_after: Duration::from_secs(after.into()),
                }
            }
        }
    }
}

/// What an error means to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// There is no such object.
    Absent,
    /// There is one already, or it is another one than was meant.
    Conflict,
    /// The server is busy: it is asked again, after this time at least.
    Busy(Duration),
    /// There is no answer: nobody knows.
    Unheard,
    /// It will not be otherwise.
    Refused,
}

impl ClusterError {
    pub(crate) fn meaning(&self) -> Meaning {
        match self {
            Self::Api { code: 404, .. } => Meaning::Absent,
            Self::Api { code: 409, .. } => Meaning::Conflict,
            Self::Api {
                code: 429 | 500..,
                retry_after,
                ..
            } => Meaning::Busy(*retry_after),
            Self::Unreachable { .. } => Meaning::Unheard,
            _ => Meaning::Refused,
        }
    }
}

impl Failure {
    pub(crate) fn into_error(self, image: &str) -> ClusterError {
        match self {
            Self::Image { reason, message } => ClusterError::Image {
                image: image.to_owned(),
                reason,
                message,
            },
            Self::Program(message) => ClusterError::Program(message),
            Self::Container { reason, message } => ClusterError::Container { reason, message },
            Self::Rejected { reason, message } => ClusterError::Rejected { reason, message },
            Self::Deleted => ClusterError::Deleted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> ClusterError {
        let action = Action {
            verb: "create",
            resource: "pods",
            namespace: "ns",
            address: "a",
        };
        let mut status = Status::failure(message, "");
        status.code = code;
        action.refused(status)
    }

    #[test]
    fn a_missing_right_names_verb_and_resource() {
        let words = r#"pods is forbidden: User "u" cannot create resource "pods""#;
        let text = refused(403, words).to_string();
        assert!(
            text.contains("no right to create pods in namespace ns"),
            "{text}"
        );
        assert!(
            text.contains("verbs: [create], resources: [pods]"),
            "{text}"
        );
    }

    #[test]
    fn quota_and_admission_are_told_from_rights() {
        let words = r#"pods "p" is forbidden: exceeded quota: q, requested: pods=1"#;
        assert!(matches!(refused(403, words), ClusterError::Quota(_)));
        for words in [
            r#"admission webhook "w" denied the request: no"#,
            r#"pods "p" is forbidden: violates PodSecurity "restricted:latest""#,
        ] {
            assert!(matches!(
                refused(403, words),
                ClusterError::Admission { .. }
            ));
        }
        assert!(matches!(
            refused(422, "invalid"),
            ClusterError::Admission { .. }
        ));
    }

    #[test]
    fn a_busy_server_is_no_failure() {
        let busy = Meaning::Busy(Duration::ZERO);
        assert_eq!(refused(429, "too many").meaning(), busy);
        assert_eq!(refused(503, "etcd").meaning(), busy);
        assert_eq!(refused(404, "no").meaning(), Meaning::Absent);
        assert_eq!(refused(409, "uid").meaning(), Meaning::Conflict);
        assert_eq!(refused(403, "no").meaning(), Meaning::Refused);
    }
}
