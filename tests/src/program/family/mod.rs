//! Starts of descendants that outlive what they should not.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::process::Command;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

use crate::program::{Context, exit};

/// The settings of a descendant: the things that it takes with it, and those that it leaves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Descendant {
    /// Starts a session, and so leaves the process group.
    pub(crate) own_session: bool,
    /// SIGTERM changes nothing.
    pub(crate) ignore_term: bool,
    /// Keeps the server's standard output open.
    pub(crate) keep_stdout: bool,
}

/// A descendant that has left the group and ignores every request.
pub(crate) const DEAF: Descendant = Descendant {
    own_session: true,
    ignore_term: true,
    keep_stdout: false,
};

/// The command that runs this very program as another member of the family.
pub(crate) fn reexec(context: &Context, shape: &str, role: &str) -> Command {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => exit::refused("current_exe", error),
    };
    let mut command = Command::new(program);
    command.args(context.args.for_child(shape, role));
    command
}
