//! Other Unix than Linux: nothing identifies an orphan there, so none is kept
//! account of and none is looked for.

use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::ReapReport;

use crate::identity::Cookie;
use crate::inventory::{Inventory, KnownServer, StopReport, Unclaimed};
use crate::sys::Pid;

/// Said of a launch that could not be written down.
pub(crate) const UNRECORDED: &str = "the server could not be written down";

pub(crate) fn register_uncontained(_server: &Cookie) -> io::Result<()> {
    Ok(())
}

/// Nothing says whose a group is that has lost its leader.
pub(crate) fn end_group(_group: Pid, _server: &Cookie, _limit: Duration) -> bool {
    false
}

pub(crate) fn inventory() -> io::Result<Inventory> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn stop(_server: &KnownServer, _grace: Duration) -> io::Result<StopReport> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn command_line(_pid: u32, _start_time: u64) -> Vec<String> {
    Vec::new()
}

pub(crate) fn reap() -> io::Result<ReapReport> {
    Ok(ReapReport::new())
}
