//! `run`: a server in place of this process.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::Failure;

/// A server, and how it is held.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Time that the server has to end when it is asked to, before it is killed
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// The server: a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Starts the server.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let program = options
        .command
        .first()
        .map(OsString::as_os_str)
        .unwrap_or_default();
    Err(Failure::wrapper(format_args!(
        "{} was not started: this build cannot start servers yet",
        program.display()
    )))
}
