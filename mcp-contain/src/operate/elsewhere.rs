//! Verbs that examine running servers, on systems without records of them.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::failure::Failure;

/// The verbs, none of which must be taken for a program.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List the running servers: on Linux only
    Ps(Words),
    /// End one server: on Linux only
    Stop(Words),
    /// Replace one server: on Linux only
    Restart(Words),
    /// Print the log of one server: on Linux only
    Logs(Words),
    /// End servers that were left behind by a program that is gone: on Linux only
    Reap(Words),
    /// Show how servers ended so far: on Linux only
    Stats(Words),
    /// Show what was left behind: on Linux only
    Doctor(Words),
    /// Show what a host leaves behind: on Linux only
    Demo(Words),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(_: &Verb) -> Result<ExitCode, Failure> {
    let why = match cfg!(windows) {
        true => "here the kernel ends a server with its host, and keeps no list of servers",
        false => "here a server is a process group, of which no list is kept",
    };
    Err(Failure::wrapper(format_args!(
        "this verb works on Linux only: {why}"
    )))
}
