//! Errors between us and a cluster.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use thiserror::Error as DeriveError;

use crate::cluster::NoCredentials;
use crate::pod::Failure;

/// The reason a step failed.
#[derive(Debug, DeriveError)]
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
        verb: String,
        resource: String,
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
    #[error(
        "something in the cluster, such as an admission webhook, has changed the pod's {0}, on \
         which the server's lifecycle rests; exempt these pods from it"
    )]
    Changed(String),
    #[error(
        "no {action} at {address}, for the connection is not to be trusted: {problem}; look at \
         the certificates in the kubeconfig, and at what is between"
    )]
    Untrusted {
        action: String,
        address: String,
        problem: String,
    },
    #[error("no {action} at {address}, for the credentials do not hold: {problem}; renew them")]
    Credentials {
        action: String,
        address: String,
        problem: String,
    },
    #[error("failed to {action}: there is one of that name: {words}")]
    Exists { action: String, words: String },
    #[error("failed to {action}, for others do so at the same time: {words}")]
    Contended { action: String, words: String },
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
    /// Of a step that others have waited for as well.
    #[error(transparent)]
    Shared(Arc<Self>),
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

/// Action, for errors that name the right it takes.
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
            other => {
                let problem = mcp_lifecycle_core::launch::ErrorChain(&other).to_string();
                let (action, address) = (self.words(), self.address.to_owned());
                match connection_fault(&other) {
                    Some(Fault::Tls) => ClusterError::Untrusted {
                        action,
                        address,
                        problem,
                    },
                    Some(Fault::Credentials) => ClusterError::Credentials {
                        action,
                        address,
                        problem,
                    },
                    None => self.unreachable(problem),
                }
            }
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
            401 => ClusterError::Credentials {
                action: self.words(),
                address: self.address.to_owned(),
                problem: words,
            },
            403 => self.forbidden(words),
            409 if status.reason == "AlreadyExists" => ClusterError::Exists {
                action: self.words(),
                words,
            },
            // As where two creates count for one quota.
            409 if self.verb == "create" => ClusterError::Contended {
                action: self.words(),
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

    /// A refusal of an authorizer, or of what looks at an object afterwards: a limit, a service
    /// account or a priority class that is not there, a namespace that is being deleted.
    fn forbidden(&self, words: String) -> ClusterError {
        match missing_right(&words) {
            Some((verb, resource)) => ClusterError::Forbidden {
                verb: verb.to_owned(),
                resource: resource.to_owned(),
                namespace: self.namespace.to_owned(),
                words,
            },
            None if self.verb == "create" => ClusterError::Admission {
                resource: self.resource,
                words,
            },
            None => ClusterError::Api {
                action: self.words(),
                code: 403,
                words,
                retry_after: Duration::ZERO,
            },
        }
    }
}

/// The right that an authorizer misses, verb and resource: `User "u" cannot create resource
/// "pods" in API group ""`.
fn missing_right(words: &str) -> Option<(&str, &str)> {
    let (_, right) = words.split_once(" cannot ")?;
    let (verb, right) = right.split_once(" resource \"")?;
    let (resource, _) = right.split_once('"')?;
    (!verb.contains(' ')).then_some((verb, resource))
}

/// The faults of a connection that the next try will find again.
enum Fault {
    Tls,
    Credentials,
}

fn connection_fault(error: &(dyn Error + 'static)) -> Option<Fault> {
    if error.is::<rustls::Error>() {
        return Some(Fault::Tls);
    }
    if error.is::<kube::client::AuthError>() || error.is::<NoCredentials>() {
        return Some(Fault::Credentials);
    }
    // Its own source is what is behind the error within.
    let within = error.downcast_ref::<std::io::Error>();
    let within = within.and_then(std::io::Error::get_ref);
    within
        .and_then(|within| connection_fault(within))
        .or_else(|| connection_fault(error.source()?))
}

/// Meaning of an error to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// There is no such object.
    Absent,
    /// There is one of this name already.
    Exists,
    /// It is another one than was meant.
    Conflict,
    /// The server is busy: it is asked again, after this time at least.
    Busy(Duration),
    /// There is no answer: nobody knows.
    Unheard,
    /// There are no credentials, or they do not hold: they may be renewed.
    Unaccepted,
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
            Self::Contended { .. } => Meaning::Busy(Duration::ZERO),
            Self::Exists { .. } => Meaning::Exists,
            Self::Unreachable { .. } => Meaning::Unheard,
            Self::Credentials { .. } => Meaning::Unaccepted,
            Self::Shared(error) => error.meaning(),
            _ => Meaning::Refused,
        }
    }
}

impl ClusterError {
    /// The error itself, whoever shares it.
    pub(crate) fn own(&self) -> &Self {
        match self {
            Self::Shared(error) => error.own(),
            error => error,
        }
    }

    /// Returns whether a create that got this answer may have been, or may still be, carried out.
    pub(crate) fn may_come_true(&self) -> bool {
        match self.own() {
            // The server has not looked at it.
            Self::Api { code: 429, .. } => false,
            error => matches!(
                error.meaning(),
                Meaning::Unheard | Meaning::Exists | Meaning::Busy(_)
            ),
        }
    }

    /// Returns whether the API server has not refused anything: a watch may go on from where it
    /// was, once somebody answers again.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.own(), Self::Untrusted { .. })
            || matches!(
                self.meaning(),
                Meaning::Unheard | Meaning::Unaccepted | Meaning::Busy(_)
            )
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
mod tests;
