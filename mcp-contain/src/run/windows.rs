//! `run` on Windows: this process holds the job of the server, and stays until that is empty.

use std::process::{self, ExitCode};

use mcp_launcher_local::Wrapper;

use super::{Containers, Level, Options};
use crate::failure::Failure;

/// Starts the server, and ends as it has. Returns only if there was none.
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
        // All 32 bits of it, of which `ExitCode` has eight.
        Ok(code) => process::exit(code.cast_signed()),
        Err(error) => Err(Failure::launch(&error)),
    }
}

/// The first that was asked for and that nobody would do. `--name` and `--no-mark` are taken: no list has servers here, and
/// none has a mark.
fn refused(options: &Options) -> Option<&'static str> {
    let asked = [
        (options.lazy, "--lazy"),
        (options.restart, "--restart"),
        (options.path.is_some(), "--path login"),
        (!options.keep.is_empty(), "--keep"),
        (options.containers == Containers::Always, "--containers"),
        // A job is what the two lower levels are: ends with its owner, and the kernel has the list.
        (options.require == Some(Level::Pidns), "--require pidns"),
    ];
    asked
        .into_iter()
        .find_map(|(is_asked, what)| is_asked.then_some(what))
}
