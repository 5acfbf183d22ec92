use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Network(SocketAddr, Option<Arc<str>>),
    User(super::unix::Caller),
    Stdio,
}

/// The clients that share a quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Share {
    /// The clients with the token of this name, from any address.
    Token(Arc<str>),
    Open,
    /// An address, or the network of one client, before a token was presented.
    Address(IpAddr),
    User(u32),
}

impl Origin {
    pub(super) fn door(&self) -> Share {
        match self {
            Self::Network(address, _) => Share::Address(network(address.ip())),
            Self::User(caller) => Share::User(caller.uid),
            Self::Stdio => Share::User(0),
        }
    }

    pub(super) fn account(&self) -> Share {
        match self {
            Self::Network(_, Some(token)) => Share::Token(Arc::clone(token)),
            Self::Network(_, None) => Share::Open,
            Self::User(_) | Self::Stdio => self.door(),
        }
    }
}

/// Returns the network of an address: the owner of one IPv6 address has 2^64 of them.
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

    fn from(ip: &str, token: Option<&str>) -> Origin {
        Origin::Network(
            SocketAddr::new(ip.parse().unwrap(), 1),
            token.map(Arc::from),
        )
    }

    #[test]
    fn a_token_has_one_account_from_any_address() {
        let account = |ip, token| from(ip, token).account();
        let one = account("10.0.0.1", Some("a"));
        assert_eq!(one, account("10.0.0.2", Some("a")));
        assert_ne!(one, account("10.0.0.1", Some("b")));
        assert_ne!(one, account("10.0.0.1", None));
        assert_eq!(account("10.0.0.1", None), account("10.0.0.2", None));
    }

    #[test]
    fn a_network_of_version_6_has_one_share_at_the_door() {
        let share = |ip: &str| from(ip, None).door();
        assert_eq!(share("2001:db8:0:1::1"), share("2001:db8:0:1:ffff::2"));
        assert_ne!(share("2001:db8:0:1::1"), share("2001:db8:0:2::1"));
        assert_ne!(share("10.0.0.1"), share("10.0.0.2"));
        assert_eq!(share("::ffff:10.0.0.1"), share("10.0.0.1"));
        assert_ne!(share("::ffff:10.0.0.1"), share("::ffff:10.0.0.2"));
    }
}
