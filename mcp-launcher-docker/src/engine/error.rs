use bollard::errors::Error;
use thiserror::Error;

use crate::endpoint::Endpoint;

pub(crate) type Result<T, E = EngineError> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub(crate) enum EngineError {
    #[error(
        "this user may not use the container engine at {endpoint}; Docker's own lets the group `docker` in, and that group is root's equal"
    )]
    NotAllowed {
        endpoint: Endpoint,
        #[source]
        source: Error,
    },
    #[error("no container engine answers at {endpoint}; is it running?")]
    Unreachable {
        endpoint: Endpoint,
        #[source]
        source: Error,
    },
    #[error("the container engine at {endpoint} does not answer")]
    Silent { endpoint: Endpoint },
    #[error("the container engine refused ({status}): {message}")]
    Refused { status: u16, message: String },
    #[error(
        "the container engine at {endpoint}, or something in between, answered {status}: {message}"
    )]
    Between {
        endpoint: Endpoint,
        status: u16,
        message: String,
    },
    #[error(
        "another engine answers at {endpoint} than the one that has the container; lead the address back to that one"
    )]
    OtherEngine { endpoint: Endpoint },
    #[error("no such object: {0}")]
    Absent(String),
    #[error("{0}")]
    Image(String),
    #[error("the server cannot be supervised from within its container")]
    Supervision(#[source] std::io::Error),
    #[error(
        "the create of container `{name}` was not answered; it is removed should it still come true"
    )]
    UnderWay {
        name: String,
        #[source]
        source: Box<Self>,
    },
    #[error("the launch was cancelled")]
    Cancelled,
    #[error(transparent)]
    Thread(#[from] std::io::Error),
    #[error("the owner's ledger cannot be taken; `ledger_directory` names another place for it")]
    Ledger(#[source] std::io::Error),
}

/// Returns whether the status may come from a gateway. An engine itself also uses 503.
pub(crate) const fn is_between(status: u16) -> bool {
    matches!(status, 502..=504)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// 404: the container does not exist. The only proof.
    Absent,
    /// It is in the requested state or about to be: 304, and 409 for a removal in progress or a
    /// container that does not run.
    AsAsked,
    Refused,
    /// No response, or it was lost: the outcome is unknown.
    Unknown,
}

impl Meaning {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::DockerResponseServerError {
                status_code,
                message,
            } => Self::of_status(*status_code, message),
            _ => Self::Unknown,
        }
    }

    /// Matches the messages of moby's `daemon/delete.go` and `daemon/kill.go`, and of Podman.
    fn of_status(status: u16, message: &str) -> Self {
        match status {
            404 => Self::Absent,
            status if is_between(status) => Self::Unknown,
            304 => Self::AsAsked,
            409 if message.contains("already in progress")
                || message.contains("is not running")
                || message.contains("can only kill running containers") =>
            {
                Self::AsAsked
            }
            _ => Self::Refused,
        }
    }
}

impl EngineError {
    pub(crate) fn new(endpoint: &Endpoint, error: Error) -> Self {
        let endpoint = endpoint.clone();
        match error {
            Error::DockerResponseServerError {
                status_code: status,
                message,
            } => match status {
                404 => Self::Absent(message),
                _ if is_between(status) => Self::Between {
                    endpoint,
                    status,
                    message,
                },
                _ => Self::Refused { status, message },
            },
            Error::RequestTimeoutError => Self::Silent { endpoint },
            source if is_denied(&source) => Self::NotAllowed { endpoint, source },
            source => Self::Unreachable { endpoint, source },
        }
    }
}

fn is_denied(error: &Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(|error| {
        let io = error.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_404_is_proof() {
        let of = |status, message| Meaning::of_status(status, message);
        assert_eq!(of(404, "No such container: x"), Meaning::Absent);
        let removing = "removal of container x is already in progress";
        assert_eq!(of(409, removing), Meaning::AsAsked);
        assert_eq!(
            of(409, "Cannot kill container: x: Container x is not running"),
            Meaning::AsAsked
        );
        assert_eq!(of(409, "Conflict. The name is in use"), Meaning::Refused);
        assert_eq!(of(500, "device is busy"), Meaning::Refused);
        assert_eq!(of(504, "<html>"), Meaning::Unknown);
        let timeout = Meaning::of(&Error::RequestTimeoutError);
        assert_eq!(timeout, Meaning::Unknown);
    }
}
