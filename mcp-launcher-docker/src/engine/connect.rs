//! From an [`Endpoint`] to bollard's client. No I/O happens here, but that
//! certificates are read.

use bollard::{API_DEFAULT_VERSION, Docker};

use super::{EngineError, transport};
use crate::endpoint::Endpoint;

/// Seconds; every request sets its own limit instead.
pub(super) const TIMEOUT: u64 = 120;

pub(super) fn open(endpoint: &Endpoint) -> Result<Docker, EngineError> {
    if let Some(feature) = missing(endpoint) {
        return Err(EngineError::Feature(endpoint.clone(), feature));
    }
    let docker = match endpoint {
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            Docker::connect_with_unix(&path.to_string_lossy(), TIMEOUT, API_DEFAULT_VERSION)
        }
        #[cfg(windows)]
        Endpoint::NamedPipe(url) => {
            Docker::connect_with_named_pipe(url, TIMEOUT, API_DEFAULT_VERSION)
        }
        elsewhere => transport::open(elsewhere),
    };
    docker.map_err(|error| EngineError::new(endpoint, error))
}

/// The feature that would have to be compiled in.
fn missing(endpoint: &Endpoint) -> Option<&'static str> {
    let (is_here, feature) = match endpoint {
        Endpoint::Tcp(_) => (cfg!(feature = "tcp"), "tcp"),
        Endpoint::Tls { .. } => (cfg!(feature = "tls"), "tls"),
        Endpoint::Ssh(_) => (cfg!(feature = "ssh"), "ssh"),
        Endpoint::Unix(_) => (cfg!(unix), "none: it is another system's"),
        Endpoint::NamedPipe(_) => (cfg!(windows), "none: it is another system's"),
    };
    (!is_here).then_some(feature)
}
