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

/// No server rather than one whose containers are not known, if that was asked for.
pub(crate) fn accompany(when: Containers, _: &mut Wrapper) -> Result<(), Failure> {
    match when {
        Containers::Always => Err(Failure::wrapper(
            "containers cannot be ended with their server: this build lacks the feature `docker`",
        )),
        Containers::Auto | Containers::Never => Ok(()),
    }
}

/// None is.
pub(crate) fn may_accompany(_: Containers, _: &[OsString]) -> bool {
    false
}

/// Nobody starts one.
pub(crate) fn attend(_: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}

/// None is known.
pub(crate) fn end(_: &mut ReapReport) {}

/// As little.
pub(crate) fn look() -> Left {
    Left::default()
}
