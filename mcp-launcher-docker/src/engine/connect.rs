//! From an [`Endpoint`] to bollard's client. No I/O happens here, but that
//! certificates are read.

use bollard::{API_DEFAULT_VERSION, Docker};

use super::EngineError;
use crate::endpoint::Endpoint;

/// Seconds; every request sets its own limit instead.
const TIMEOUT: u64 = 120;

pub(super) fn open(endpoint: &Endpoint) -> Result<Docker, EngineError> {
    let docker = match endpoint {
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            Docker::connect_with_unix(&path.to_string_lossy(), TIMEOUT, API_DEFAULT_VERSION)
        }
        #[cfg(windows)]
        Endpoint::NamedPipe(url) => {
            Docker::connect_with_named_pipe(url, TIMEOUT, API_DEFAULT_VERSION)
        }
        #[cfg(feature = "tcp")]
        Endpoint::Tcp(address) => {
            let url = format!("tcp://{address}");
            Docker::connect_with_http(&url, TIMEOUT, API_DEFAULT_VERSION)
        }
        #[cfg(feature = "tls")]
        Endpoint::Tls {
            address,
            certificates,
        } => Docker::connect_with_ssl(
            &format!("tcp://{address}"),
            &certificates.join("key.pem"),
            &certificates.join("cert.pem"),
            &certificates.join("ca.pem"),
            TIMEOUT,
            API_DEFAULT_VERSION,
        ),
        #[cfg(feature = "ssh")]
        Endpoint::Ssh(url) => Docker::connect_with_ssh(url, TIMEOUT, API_DEFAULT_VERSION, None),
        other => return Err(EngineError::Feature(other.clone(), missing(other))),
    };
    docker.map_err(|error| EngineError::new(endpoint, error))
}

/// What would have to be compiled in.
fn missing(endpoint: &Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Tcp(_) => "tcp",
        Endpoint::Tls { .. } => "tls",
        Endpoint::Ssh(_) => "ssh",
        Endpoint::Unix(_) | Endpoint::NamedPipe(_) => "none: it is another system's",
    }
}
