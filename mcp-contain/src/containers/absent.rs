//! A build that knows no containers.

use std::ffi::OsString;
use std::process::ExitCode;

use mcp_launcher_local::Wrapper;
use mcp_lifecycle_core::launch::ReapReport;

use crate::failure::Failure;
use crate::run::Containers;
pub(crate) use found::Left;

#[path = "found.rs"]
mod found;

/// The first word of a companion, of which this build has none.
pub(crate) const ROLE: &str = "--companion";

/// Refuses a server whose containers are not known, if that was asked for.
pub(crate) fn accompany(when: Containers, _: &mut Wrapper) -> Result<(), Failure> {
    match when {
        Containers::Always => Err(Failure::wrapper(
            "containers cannot be ended with their server: this build lacks the feature `docker`",
        )),
        Containers::Auto | Containers::Never => Ok(()),
    }
}

/// Returns `false`: no server has a companion.
pub(crate) fn may_accompany(_: Containers, _: &[OsString]) -> bool {
    false
}

/// Fails: this build starts no companion.
pub(crate) fn attend(_: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}

/// Ends none: none is known.
pub(crate) fn end(_: &mut ReapReport) {}

/// Finds none.
pub(crate) fn look() -> Left {
    Left::default()
}
