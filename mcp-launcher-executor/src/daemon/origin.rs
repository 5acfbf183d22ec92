//! [`Origin`]: where a connection comes from.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Where a connection comes from, as far as the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The network.
    Network(SocketAddr),
    /// A socket file of this machine.
    User(super::unix::Caller),
    /// The streams that this program was started with.
    Stdio,
}

/// Connections of one share at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Address(IpAddr),
    User(u32),
}

impl Origin {
    /// Whose share at the door it takes.
    pub(super) fn share(self) -> Share {
        match self {
            Self::Network(address) => Share::Address(address.ip()),
            Self::User(caller) => Share::User(caller.uid),
            Self::Stdio => Share::User(0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => write!(f, "{address}"),
            Self::User(caller) => match caller.pid {
                Some(pid) => write!(f, "uid {} (pid {pid})", caller.uid),
                None => write!(f, "uid {}", caller.uid),
            },
            Self::Stdio => f.write_str("stdio"),
        }
    }
}
