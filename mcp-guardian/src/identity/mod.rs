//! The identities of this host and of each of its servers.
//!
//! A pid is reused. A host is its pid, its start time, the boot of the machine, and a random number,
//! which tells apart the first processes of two containers that were started together. A server adds
//! a number of its own.

mod cookie;

pub use cookie::{Cookie, HostId, decimal, hex};

use std::io;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use crate::sys;

/// The variable in the environment of each server that carries its identity.
pub const VARIABLE: &str = "MCP_LIFECYCLE_ID";

/// The variable with the patterns of processes to keep when a server ends.
pub const KEEP: &str = "MCP_LIFECYCLE_KEEP";

/// Returns the identity of this process.
///
/// # Errors
///
/// The start time or the boot id is not available, or not at this moment. A start time counts from
/// the boot, so without the boot id an identity of the boot before could be a stranger's.
#[cfg(target_os = "linux")]
pub fn this_host() -> io::Result<&'static HostId> {
    static THIS: OnceLock<HostId> = OnceLock::new();
    if let Some(this) = THIS.get() {
        return Ok(this);
    }
    sessions()?;
    let start_time = sys::own_start_time()?;
    let this = HostId::new(std::process::id(), start_time, &sys::boot_id()?, random()?);
    let this = this.ok_or_else(|| io::Error::other("this process cannot be identified"))?;
    Ok(THIS.get_or_init(|| this))
}

/// Fails: only Linux tells a process from a later one with its pid.
#[cfg(not(target_os = "linux"))]
pub fn this_host() -> io::Result<&'static HostId> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns why this machine allows no identity; `None` if it does, or the reason may pass.
#[cfg(target_os = "linux")]
pub fn refusal() -> Option<io::Error> {
    this_host().err().filter(|error| !sys::is_shortage(error))
}

/// Returns the sessions in which this process has started servers: it can leave its session once.
#[cfg(target_os = "linux")]
pub fn sessions() -> io::Result<[u32; 2]> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let now = sys::own_session()?;
    Ok([*FIRST.get_or_init(|| now), now])
}

/// Creates an identity for a server of this host.
pub fn new_server() -> io::Result<Cookie> {
    Ok(Cookie::new(this_host()?.clone(), random()?))
}

pub fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other("there are no random numbers"),
    })
}
