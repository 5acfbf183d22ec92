//! Other systems than Linux: no account is kept of hosts. On macOS orphans are looked for by their marks
//! ([`lineage::reap`](crate::lineage)). On Windows there is none: the kernel closes the
//! last handle of a job when its owner ends, and ends with it whoever is inside. Elsewhere nothing identifies one.

use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::ReapReport;

use crate::history::History;
use crate::inventory::{Inventory, KnownProcess, KnownServer, StopReport, Unclaimed};

#[cfg(any(target_os = "macos", all(unix, test)))]
#[path = "mark.rs"]
pub(crate) mod mark;
#[cfg(unix)]
#[path = "unrecorded.rs"]
mod unrecorded;
#[cfg(any(target_os = "macos", all(unix, test)))]
#[path = "verdict.rs"]
#[expect(dead_code, reason = "the rest is of systems with ledgers")]
pub(crate) mod verdict;

#[cfg(unix)]
pub(crate) use unrecorded::{UNRECORDED, end_group, register_uncontained};

pub(crate) fn inventory() -> io::Result<Inventory> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn history() -> io::Result<History> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn companion(_: &KnownServer, _role: &str) -> io::Result<Option<KnownProcess>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn bereaved(_role: &str) -> io::Result<Vec<KnownProcess>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn stop(_server: &KnownServer, _grace: Duration) -> io::Result<StopReport> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn stop_unclaimed(_left: &Unclaimed, _grace: Duration) -> io::Result<StopReport> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn command_line(_pid: u32, _start_time: u64) -> io::Result<Vec<String>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "macos"))]
pub(crate) fn reap() -> io::Result<ReapReport> {
    Ok(ReapReport::new())
}

/// Finds and ends what dead hosts left, as far as it says so. Blocks; at most some seconds longer than ten.
#[cfg(target_os = "macos")]
pub(crate) fn reap() -> io::Result<ReapReport> {
    let boot_id = crate::sys::boot_id()?;
    let searcher = crate::lineage::Searcher {
        this: crate::identity::this_host().ok(),
        pid: std::process::id(),
        boot_id: &boot_id,
    };
    let limit = Duration::from_secs(10);
    crate::lineage::reap(&mut crate::sys::Mac::new(limit), &searcher)
}
