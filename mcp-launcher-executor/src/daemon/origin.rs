//! [`Origin`]: where a connection comes from.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Where a connection comes from, as far as the system tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The network, and the name of the token that was shown, where there are several.
    Network(SocketAddr, Option<Arc<str>>),
    /// A socket file of this machine.
    User(super::unix::Caller),
    /// The streams that this program was started with.
    Stdio,
}

/// The clients that have one share together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Share {
    /// All who show the token of this name, from wherever.
    Token(Arc<str>),
    /// An address, or all of a network that belongs to one.
    Address(IpAddr),
    User(u32),
}

impl Origin {
    /// Whose share it takes.
    pub(super) fn share(&self) -> Share {
        match self {
            Self::Network(_, Some(token)) => Share::Token(Arc::clone(token)),
            Self::Network(address, None) => Share::Address(network(address.ip())),
            Self::User(caller) => Share::User(caller.uid),
            Self::Stdio => Share::User(0),
        }
    }
}

/// The network of an address: one who has an address of version 6 has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address, None) => write!(f, "{address}"),
            Self::Network(address, Some(token)) => write!(f, "{address} (token {token})"),
            Self::User(caller) => match caller.pid {
                Some(pid) => write!(f, "uid {} (pid {pid})", caller.uid),
                None => write!(f, "uid {}", caller.uid),
            },
            Self::Stdio => f.write_str("stdio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str, token: Option<&str>) -> Share {
        Origin::Network(
            SocketAddr::new(ip.parse().unwrap(), 1),
            token.map(Arc::from),
        )
        .share()
    }

    #[test]
    fn a_token_has_one_share_from_wherever_it_comes() {
        assert_eq!(from("10.0.0.1", Some("a")), from("10.0.0.2", Some("a")));
        assert_ne!(from("10.0.0.1", Some("a")), from("10.0.0.1", Some("b")));
        assert_ne!(from("10.0.0.1", Some("a")), from("10.0.0.1", None));
    }

    #[test]
    fn a_network_of_version_6_has_one_share() {
        let share = |ip: &str| from(ip, None);
        assert_eq!(share("2001:db8:0:1::1"), share("2001:db8:0:1:ffff::2"));
        assert_ne!(share("2001:db8:0:1::1"), share("2001:db8:0:2::1"));
        assert_ne!(share("10.0.0.1"), share("10.0.0.2"));
        assert_eq!(share("::ffff:10.0.0.1"), share("10.0.0.1"));
        assert_ne!(share("::ffff:10.0.0.1"), share("::ffff:10.0.0.2"));
    }
}
