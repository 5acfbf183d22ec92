//! `run` on Windows: this process holds the server's job object and stays until that is empty.

use std::process::{self, ExitCode};

use mcp_launcher_local::Wrapper;

use crate::failure::Failure;
use crate::options::{Containers, Level, Options};

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(what) = refused(options) {
        return Err(Failure::wrapper(format_args!(
            "{what} is not there on Windows"
        )));
    }
    let Some((program, args)) = options.command.split_first() else {
        return Err(Failure::wrapper("no program was named"));
    };
    let mut wrapper = Wrapper::new(program, args.iter().cloned());
    wrapper.grace = options.grace;
    wrapper.memory = options.memory;
    wrapper.log.clone_from(&options.log);
    match wrapper.run() {
        // All 32 bits; `ExitCode` has only eight.
        Ok(code) => process::exit(code.cast_signed()),
        Err(error) => Err(Failure::launch(&error)),
    }
}

/// Returns the first option that is not supported.
fn refused(options: &Options) -> Option<&'static str> {
    let asked = [
        (options.lazy, "--lazy"),
        (options.restart, "--restart"),
        (options.path.is_some(), "--path login"),
        (options.report.is_some(), "--report"),
        (!options.keep.is_empty(), "--keep"),
        (options.containers == Containers::Always, "--containers"),
        // A job object corresponds to the two lower levels.
        (options.require == Some(Level::Pidns), "--require pidns"),
    ];
    asked
        .into_iter()
        .find_map(|(is_asked, what)| is_asked.then_some(what))
}
