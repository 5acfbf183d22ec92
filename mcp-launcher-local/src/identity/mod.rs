//! The identities of this host and of each of its servers.
//!
//! A pid alone is nobody: it is reused. A host is its pid, when it started and
//! in which boot of the machine, and a number that it drew by chance, which
//! tells apart two hosts that have all three in common (first processes of two
//! containers, started together). A server adds a number of its own.

mod cookie;

pub(crate) use cookie::{Cookie, HostId};
#[cfg(target_os = "linux")]
pub(crate) use cookie::{decimal, hex};

use std::io;
use std::sync::OnceLock;

use crate::sys;

/// The variable in the environment of each server that says whose it is.
pub(crate) const VARIABLE: &str = "MCP_LIFECYCLE_ID";

/// The variable that says who of a server is to stay when it ends.
pub(crate) const KEEP: &str = "MCP_LIFECYCLE_KEEP";

/// The identity of this process.
///
/// # Errors
///
/// The system does not tell when a process started or which boot this is, or not
/// at this moment: half an identity is worse than none.
pub(crate) fn this_host() -> io::Result<&'static HostId> {
    static THIS: OnceLock<HostId> = OnceLock::new();
    if let Some(this) = THIS.get() {
        return Ok(this);
    }
    let start_time = sys::own_start_time()?;
    let this = HostId::new(std::process::id(), start_time, &sys::boot_id()?, random()?);
    let this = this.ok_or_else(|| io::Error::other("this process cannot be identified"))?;
    // Two that come first at the same time are one.
    Ok(THIS.get_or_init(|| this))
}

/// A new identity for a server of this host.
///
/// # Errors
///
/// As [`this_host`].
pub(crate) fn new_server() -> io::Result<Cookie> {
    Ok(Cookie::new(this_host()?.clone(), random()?))
}

fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other("there are no random numbers"),
    })
}
