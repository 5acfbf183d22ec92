//! `mcp-contain PROGRAM [ARGS...]`: starts a stdio MCP server in place of its host's own command,
//! so that nothing of it outlives the host. `docs/contain-reference.md` in the repository describes
//! the design and its limits.

mod cli;
#[cfg(target_os = "linux")]
mod containers;
mod failure;
#[cfg(doc)]
mod guide;
#[cfg(target_os = "linux")]
mod lazy;
mod manual;
#[cfg_attr(not(target_os = "linux"), path = "operate/elsewhere.rs")]
mod operate;
mod options;
mod run;
mod show;
#[cfg(unix)]
mod sys;
#[cfg(target_os = "linux")]
mod watch;
mod wrap;

use std::process::ExitCode;

use cli::Verb;

/// Replaces musl's, which takes three times as long for the thousands of small blocks of a start.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(error) = mcp_tree::direct::run_recorder() {
        return failure::Failure::wrapper(format_args!("the package cannot be executed: {error}"))
            .report();
    }
    #[cfg(unix)]
    if let Err(error) = sys::be_told_of_children() {
        let why = format_args!("the ends of children would not be seen: {error}");
        return failure::Failure::wrapper(why).report();
    }
    #[cfg(target_os = "linux")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == containers::ROLE)
    {
        return containers::attend();
    }
    let verb = match cli::parse(std::env::args_os()) {
        Ok(verb) => verb,
        Err(answer) => return answer.print(),
    };
    let done = match verb {
        Verb::Run(options) => run::run(&options).map_err(|failure| {
            let meant = options.command.first().and_then(|it| cli::meant_verb(it));
            failure.with_hint(meant)
        }),
        Verb::Host(options) => run::host(options),
        Verb::Wrap(options) => wrap::run(&options, cli::program_at),
        Verb::Operate(verb) => operate::run(&verb),
        Verb::Man(options) => manual::man(&options, cli::command()),
        Verb::Completions(options) => manual::completions(&options, cli::command()),
    };
    done.unwrap_or_else(|failure| failure.report())
}
