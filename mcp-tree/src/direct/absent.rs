//! Direct start where no runner is known: every command is left as it is.

use std::path::Path;
use std::time::Duration;

use crate::command::Command;

/// The manner in which a command is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The command as it is.
    Unchanged,
    /// The command by its runner, which is recorded, for the first time or again.
    Recorded { is_first: bool },
    /// The package, as its runner has executed it before.
    Direct,
}

/// Leaves the command as it is.
pub fn replace(_: &mut Command, _: Duration, _: Option<&Path>) -> Start {
    Start::Unchanged
}
