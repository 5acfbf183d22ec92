//! Who started what: the identity of this host, and of each of its servers.
//!
//! A pid alone is nobody: it is reused. A host is its pid, when it started and
//! in which boot of the machine, and a number that it drew by chance, which
//! tells apart two hosts that have all three in common (first processes of two
//! containers, started together). A server adds a number of its own.

mod cookie;

pub(crate) use cookie::{Cookie, HostId};
#[cfg(target_os = "linux")]
pub(crate) use cookie::{decimal, hex};

use std::sync::OnceLock;

use crate::sys;

/// The variable in the environment of each server that says whose it is.
pub(crate) const VARIABLE: &str = "MCP_LIFECYCLE_ID";

/// The identity of this process.
///
/// `None` where the system does not tell when a process started or which boot
/// this is: half an identity is worse than none.
pub(crate) fn this_host() -> Option<&'static HostId> {
    static THIS: OnceLock<Option<HostId>> = OnceLock::new();
    THIS.get_or_init(|| {
        let pid = std::process::id();
        let start_time = sys::own_start_time()?;
        HostId::new(pid, start_time, &sys::boot_id()?, random()?)
    })
    .as_ref()
}

/// A new identity for a server of this host.
pub(crate) fn new_server() -> Option<Cookie> {
    Some(Cookie::new(this_host()?.clone(), random()?))
}

fn random() -> Option<u64> {
    getrandom::u64().ok()
}
