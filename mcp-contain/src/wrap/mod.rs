//! `wrap`: the configurations of hosts.

use std::process::ExitCode;

use crate::failure::Failure;

/// Which configurations, and what is done with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// Prints what to change in a configuration by hand.
pub(crate) fn run(_: &Options) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| {
        Failure::wrapper(format_args!("cannot tell where this program is: {error}"))
    })?;
    println!("Put this program in front of a server's command:\n");
    println!("  \"command\": {:?},", program.display().to_string());
    println!("  \"args\": [the old command, then its arguments]");
    Ok(ExitCode::SUCCESS)
}
