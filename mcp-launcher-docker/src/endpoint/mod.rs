//! The address of the daemon, and its discovery.

pub(crate) mod resolve;

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub(crate) use resolve::Surroundings;

/// The address of a container engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// A Unix socket on this machine.
    Unix(PathBuf),
    /// Plain TCP, `host:port`.
    Tcp(String),
    /// TCP with TLS, `host:port`. Needs the feature `tls`.
    Tls {
        /// `host:port`.
        address: String,
        /// The directory with `ca.pem`, `cert.pem` and `key.pem`.
        certificates: PathBuf,
    },
    /// `ssh://…`, through the system's ssh.
    Ssh(String),
}

/// The failure to determine an endpoint.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum EndpointError {
    #[error("`{0}` is not an engine's address; give unix://, tcp:// or ssh://")]
    Scheme(String),
    #[error("there is no docker context `{0}`; `docker context ls` shows what there is")]
    NoContext(String),
    #[error("{} cannot be used: {problem}", path.display())]
    Configuration { path: PathBuf, problem: String },
    /// Nothing names an engine, and none of these known sockets exists.
    #[error(
        "no container engine found: DOCKER_HOST is not set, there is no docker context, and none of {} exists",
        list(.0)
    )]
    NotFound(Vec<PathBuf>),
}

impl Endpoint {
    /// Finds the engine as the docker CLI does, then Podman's.
    ///
    /// In this order: `DOCKER_HOST` (with `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`), the context
    /// in `DOCKER_CONTEXT`, the current context of the CLI's configuration, the default socket, the
    /// socket of this user's rootless engine, the sockets of Podman.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] with the reason. Connects to nothing.
    pub fn resolve() -> Result<Self, EndpointError> {
        Surroundings::of_this_process().resolve()
    }

    /// Parses an address as in `DOCKER_HOST`: `unix:///path`, `tcp://host:port`, `http://host:port`,
    /// `ssh://user@host`, and the output of `Display`. For `https://host:port`
    /// the certificates are those of the docker CLI: in `DOCKER_CERT_PATH`, or its configuration.
    ///
    /// # Errors
    ///
    /// [`EndpointError::Scheme`].
    pub fn from_url(url: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| EndpointError::Scheme(url.to_owned()))?;
        Ok(match scheme {
            "unix" => Self::Unix(rest.into()),
            "tcp" | "http" => Self::Tcp(rest.trim_end_matches('/').to_owned()),
            "https" => Self::Tls {
                address: rest.trim_end_matches('/').to_owned(),
                certificates: Surroundings::of_this_process().certificates(),
            },
            "ssh" => Self::Ssh(url.to_owned()),
            _ => return Err(EndpointError::Scheme(url.to_owned())),
        })
    }

    /// Formats the address for a later process with another environment.
    pub(crate) fn noted(&self) -> String {
        match self {
            Self::Tls { certificates, .. } => format!("{self} {}", certificates.display()),
            other => other.to_string(),
        }
    }

    pub(crate) fn from_note(note: &str) -> Result<Self, EndpointError> {
        match (note.split_once(' '), Self::from_url(note)) {
            (Some((url, certificates)), _) if url.starts_with("https://") => {
                Ok(match Self::from_url(url)? {
                    Self::Tls { address, .. } => Self::Tls {
                        address,
                        certificates: certificates.into(),
                    },
                    other => other,
                })
            }
            (_, endpoint) => endpoint,
        }
    }

    /// Returns the socket, if it is on this machine.
    pub fn local_socket(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Tls { address, .. } => write!(f, "https://{address}"),
            Self::Ssh(url) => f.write_str(url),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_can_be_read_again() {
        let tls = Endpoint::Tls {
            address: "h:2376".to_owned(),
            certificates: "/somewhere".into(),
        };
        let all = [
            Endpoint::Unix("/s".into()),
            Endpoint::Tcp("h:2375".to_owned()),
            Endpoint::Ssh("ssh://u@h".to_owned()),
            tls,
        ];
        for endpoint in all {
            assert_eq!(Endpoint::from_note(&endpoint.noted()).unwrap(), endpoint);
            let text = endpoint.to_string();
            assert_eq!(Endpoint::from_url(&text).unwrap().to_string(), text);
        }
    }
}
