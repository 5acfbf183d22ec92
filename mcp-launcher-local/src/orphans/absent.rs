//! Other systems than Linux: nothing identifies an orphan there, so none is kept
//! account of and none is looked for. On Windows there is none: the kernel closes the
//! last handle of a job when its owner ends, and ends with it whoever is inside.

use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::ReapReport;

use crate::history::History;
use crate::inventory::{Inventory, KnownProcess, KnownServer, StopReport, Unclaimed};

#[cfg(unix)]
#[path = "unrecorded.rs"]
mod unrecorded;

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

pub(crate) fn reap() -> io::Result<ReapReport> {
    Ok(ReapReport::new())
}
