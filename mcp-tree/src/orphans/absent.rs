//! Systems other than Linux have no ledgers. Windows has no orphans: the kernel ends every process of
//! a job with its owner. Elsewhere an orphan cannot be identified.

use std::io;

use mcp_lifecycle_core::launch::ReapReport;

/// Finds nothing.
pub fn reap() -> io::Result<ReapReport> {
    Ok(ReapReport::default())
}

/// The error of a launch that could not be recorded.
#[cfg(unix)]
pub const UNRECORDED: &str = "the server could not be recorded";

/// Records nothing.
#[cfg(unix)]
pub fn register_uncontained(_server: &crate::identity::Cookie) -> io::Result<()> {
    Ok(())
}

/// A record, which there is none of.
#[cfg(unix)]
#[derive(Debug)]
pub enum WrapperLedger {}

#[cfg(unix)]
impl WrapperLedger {
    pub fn begin(
        _: &crate::identity::Cookie,
        _: Option<&std::path::Path>,
        _: Option<()>,
        _: bool,
        _: fn(&io::Error),
    ) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub fn started(&mut self, _: u32, _: Option<u64>, _: bool) {}

    pub fn leave(self) {}
}

/// Does nothing: a group without its leader cannot be identified.
#[cfg(unix)]
pub fn end_group(
    _group: crate::sys::Pid,
    _server: &crate::identity::Cookie,
    _limit: std::time::Duration,
) -> bool {
    false
}
