//! `run` on Windows: this process holds the server's job object and stays until that is empty.

use std::process::{self, ExitCode};

use mcp_launcher_local::Wrapper;

use crate::failure::Failure;
use crate::options::Options;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    super::refuse(options)?;
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
