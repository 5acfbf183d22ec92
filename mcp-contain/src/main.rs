//! `mcp-contain PROGRAM [ARGS...]`: starts a stdio MCP server in place of its host's own
//! command, such that nothing of it outlives the host. `docs/contain.md` in the
//! repository says how, and what is not there yet.
//!
//! - [`cli`]: the command line
//! - [`failure`]: the one line and the exit code of what goes wrong
//! - [`run`]: a server in place of this process
//! - [`wrap`]: the configurations of hosts

mod cli;
mod failure;
#[cfg(doc)]
mod guide;
mod run;
mod wrap;

use std::process::ExitCode;

use cli::Verb;

fn main() -> ExitCode {
    let verb = match cli::parse(std::env::args_os()) {
        Ok(verb) => verb,
        Err(answer) => return answer.print(),
    };
    let done = match verb {
        Verb::Run(options) => run::run(&options),
        Verb::Wrap(options) => wrap::run(&options),
    };
    done.unwrap_or_else(|failure| failure.report())
}
