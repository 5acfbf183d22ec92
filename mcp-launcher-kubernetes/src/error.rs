use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use kube::core::Status;
use thiserror::Error as DeriveError;

use crate::decide::Failure;

/// The reason that a program gave no credentials. Quotes neither its environment nor its answer.
#[derive(Debug, Clone, DeriveError)]
#[error("the program `{program}` gives no credentials: {problem}")]
pub(crate) struct NoCredentials {
    pub(crate) program: String,
    pub(crate) problem: String,
}

pub(crate) type Result<T, E = ClusterError> = std::result::Result<T, E>;

#[derive(Debug, Clone, DeriveError)]
#[error("{words}")]
pub(crate) struct ClusterError {
    pub(crate) meaning: Meaning,
    pub(crate) case: Case,
    words: String,
}

/// Failures that a caller distinguishes from others of the same [`Meaning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Other,
    /// A list or a watch continues from too long ago.
    Expired,
    /// The server rejected the request unread.
    Unread,
    Untrusted,
    Quota,
    Admission,
    Unschedulable,
    Attach,
    Cancelled,
}

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

    pub(crate) fn failed(&self, error: kube::Error) -> ClusterError {
        let other = match error {
            kube::Error::Api(status) => return self.refused(*status),
            other => other,
        };
        let problem = mcp_lifecycle_core::launch::ErrorChain(&other).to_string();
        match connection_fault(&other) {
            Some(Fault::Tls) => {
                let (action, address) = (self.words(), self.address);
                let words = format!(
                    "no {action} at {address}, for the connection is not to be trusted: {problem}; \
                     look at the certificates in the kubeconfig, and at what is between"
                );
                ClusterError::of(Case::Untrusted, words)
            }
            Some(Fault::Credentials) => {
                ClusterError::unaccepted(&self.words(), self.address, &problem)
            }
            None => self.unreachable(problem),
        }
    }

    pub(crate) fn unreachable(&self, problem: String) -> ClusterError {
        let (action, address) = (self.words(), self.address);
        let words = format!("no answer to {action} at {address}: {problem}");
        ClusterError::new(Meaning::Unheard, Case::Other, words)
    }

    pub(crate) fn refused(&self, status: Status) -> ClusterError {
        let (code, words) = (status.code, status.message);
        let says = |text: &str| words.contains(text);
        let by_admission = says("admission webhook")
            || says("violates PodSecurity")
            || says("PodSecurityPolicy")
            || says("ValidatingAdmissionPolicy");
        match code {
            403 if says("exceeded quota") || says("failed quota") => {
                let words = format!("the namespace's quota is used up: {words}");
                ClusterError::of(Case::Quota, words)
            }
            _ if by_admission || code == 422 => self.not_admitted(&words),
            401 => ClusterError::unaccepted(&self.words(), self.address, &words),
            403 => self.forbidden(&words),
            409 if status.reason == "AlreadyExists" => {
                let action = self.words();
                let words = format!("failed to {action}: there is one of that name: {words}");
                ClusterError::new(Meaning::Exists, Case::Other, words)
            }
            // For example, two concurrent creations that count for one quota.
            409 if self.verb == "create" => ClusterError::contended(&self.words(), &words),
            _ => {
                let after = status
                    .details
                    .map_or(0, |details| details.retry_after_seconds);
                self.api(code, &words, Duration::from_secs(after.into()))
            }
        }
    }

    fn api(&self, code: u16, words: &str, after: Duration) -> ClusterError {
        let (meaning, case) = match code {
            404 => (Meaning::Absent, Case::Other),
            409 => (Meaning::Conflict, Case::Other),
            410 => (Meaning::Refused, Case::Expired),
            429 => (Meaning::Busy(after), Case::Unread),
            500.. => (Meaning::Busy(after), Case::Other),
            _ => (Meaning::Refused, Case::Other),
        };
        let words = format!("failed to {}: {words} (HTTP {code})", self.words());
        ClusterError::new(meaning, case, words)
    }

    fn not_admitted(&self, words: &str) -> ClusterError {
        let words = format!("the cluster does not admit the {}: {words}", self.resource);
        ClusterError::of(Case::Admission, words)
    }

    /// Classifies a 403: a missing permission, or admission (a limit, a missing account, a deletion).
    fn forbidden(&self, words: &str) -> ClusterError {
        let namespace = self.namespace;
        match missing_right(words) {
            Some((verb, resource)) => ClusterError::refused(format!(
                "no right to {verb} {resource} in namespace {namespace}; a Role needs \
                 verbs: [{verb}], resources: [{resource}]: {words}"
            )),
            None if self.verb == "create" => self.not_admitted(words),
            None => self.api(403, words, Duration::ZERO),
        }
    }
}

/// Parses verb and resource from `User "u" cannot create resource "pods" in API group ""`.
fn missing_right(words: &str) -> Option<(&str, &str)> {
    let (_, right) = words.split_once(" cannot ")?;
    let (verb, right) = right.split_once(" resource \"")?;
    let (resource, _) = right.split_once('"')?;
    (!verb.contains(' ')).then_some((verb, resource))
}

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
    // `source` of an `io::Error` skips the error it wraps.
    let within = error.downcast_ref::<std::io::Error>();
    let within = within.and_then(std::io::Error::get_ref);
    within
        .and_then(|within| connection_fault(within))
        .or_else(|| connection_fault(error.source()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Absent,
    Exists,
    Conflict,
    /// The server is busy: retry, after this time at the earliest.
    Busy(Duration),
    Unheard,
    /// Credentials are missing or rejected; they may be renewed.
    Unaccepted,
    Refused,
}

impl ClusterError {
    fn new(meaning: Meaning, case: Case, words: impl Into<String>) -> Self {
        let words = words.into();
        Self {
            meaning,
            case,
            words,
        }
    }

    pub(crate) fn refused(words: impl Into<String>) -> Self {
        Self::of(Case::Other, words)
    }

    pub(crate) fn of(case: Case, words: impl Into<String>) -> Self {
        Self::new(Meaning::Refused, case, words)
    }

    pub(crate) fn cancelled() -> Self {
        Self::of(Case::Cancelled, "the launch was cancelled")
    }

    pub(crate) fn no_cluster(problem: impl Display) -> Self {
        Self::refused(format!(
            "no cluster: {problem}; set KUBECONFIG, name a context, or run in a pod with a \
             service account"
        ))
    }

    pub(crate) fn unaccepted(action: &str, address: &str, problem: &str) -> Self {
        let words = format!(
            "no {action} at {address}, for the credentials do not hold: {problem}; renew them"
        );
        Self::new(Meaning::Unaccepted, Case::Other, words)
    }

    pub(crate) fn contended(action: &str, words: &str) -> Self {
        let words = format!("failed to {action}, for others do so at the same time: {words}");
        Self::new(Meaning::Busy(Duration::ZERO), Case::Other, words)
    }

    /// Returns whether a creation with this result may have taken effect, or still may.
    pub(crate) fn may_come_true(&self) -> bool {
        self.case != Case::Unread
            && matches!(
                self.meaning,
                Meaning::Unheard | Meaning::Exists | Meaning::Busy(_)
            )
    }

    /// Returns whether only the connection failed: the watch can resume at its version.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.case == Case::Untrusted
            || matches!(
                self.meaning,
                Meaning::Unheard | Meaning::Unaccepted | Meaning::Busy(_)
            )
    }
}

impl From<std::io::Error> for ClusterError {
    fn from(error: std::io::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl Failure {
    pub(crate) fn into_error(self, image: &str) -> ClusterError {
        ClusterError::refused(match self {
            Self::Image { reason, message } => {
                format!("image `{image}` cannot be had: {reason}: {message}")
            }
            Self::Program(message) => {
                format!("the program cannot be run in the container: {message}")
            }
            Self::Container { reason, message } => {
                // Advice for the most frequent reason.
                let hint = match message.contains("runAsNonRoot") || message.contains("non-root") {
                    true => "; give the pod `run_as_user`, or set `run_as_non_root` to false",
                    false => "",
                };
                format!("the container cannot be made: {reason}: {message}{hint}")
            }
            Self::Rejected { reason, message } => {
                format!("the pod was rejected or ended: {reason}: {message}")
            }
            Self::Deleted => "the pod was deleted by a third party while it started".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
