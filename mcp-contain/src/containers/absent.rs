//! A build without container support.

use std::ffi::OsString;
use std::process::ExitCode;

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};
use mcp_tree::Wrapper;

use crate::failure::Failure;
use crate::options::{Containers, Options};

pub(crate) const ROLE: &str = "--companion";

/// Refuses a server if its containers must be tracked.
pub(crate) fn accompany(options: &Options, _: &mut Wrapper) -> Result<(), Failure> {
    match options.containers {
        Containers::Always => Err(Failure::wrapper(
            "containers cannot be ended with their server: this build lacks the feature `docker`",
        )),
        Containers::Auto | Containers::Never => Ok(()),
    }
}

pub(crate) fn may_accompany(_: Containers, _: &[OsString]) -> bool {
    false
}

pub(crate) fn attend(_: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}

pub(crate) fn end(_: &mut ReapReport) {}

pub(crate) fn forget(_: &str) -> usize {
    0
}

pub(crate) fn look() -> (Vec<Remnant>, Vec<UnknownRemnant>) {
    Default::default()
}
