//! `mcp-contain PROGRAM [ARGS...]`: starts a stdio MCP server in place of its host's own
//! command, such that nothing of it outlives the host. `docs/contain.md` in the
//! repository says how, and what is not there yet.
//!
//! - [`cli`]: the command line
//! - [`failure`]: the one line and the exit code of what goes wrong
//! - [`run`]: a server in place of this process
//! - `containers`: what it starts beside itself
//! - `lazy`: a server that runs only while it is used
//! - `ps`, `stop`, `reap`, `foreign`, `stats`, `doctor`: what runs, what is left, what ended and how, what this machine can hold
//! - [`manual`]: the manual page and the completions
//! - `show`: what they say in the same way
//! - `sys`: system calls that are no safe function
//! - [`wrap`]: the configurations of hosts

mod cli;
#[cfg(target_os = "linux")]
#[cfg_attr(not(feature = "docker"), path = "containers/absent.rs")]
mod containers;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod failure;
#[cfg(target_os = "linux")]
mod foreign;
#[cfg(doc)]
mod guide;
#[cfg(target_os = "linux")]
mod lazy;
mod manual;
#[cfg(target_os = "linux")]
mod ps;
#[cfg(target_os = "linux")]
mod reap;
mod run;
mod show;
#[cfg(target_os = "linux")]
mod stats;
#[cfg(target_os = "linux")]
mod stop;
#[cfg(target_os = "linux")]
mod sys;
mod wrap;

use std::process::ExitCode;

use cli::Verb;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        if let Err(error) = sys::be_told_of_children() {
            let why = format_args!("the ends of children would not be seen: {error}");
            return failure::Failure::wrapper(why).report();
        }
        let mut words = std::env::args_os().skip(1).peekable();
        if words.next_if(|word| word == containers::ROLE).is_some() {
            return containers::attend(words);
        }
    }
    let verb = match cli::parse(std::env::args_os()) {
        Ok(verb) => verb,
        Err(answer) => return answer.print(),
    };
    let done = match verb {
        Verb::Run(options) => run::run(&options),
        Verb::Wrap(options) => wrap::run(&options),
        Verb::Man(options) => manual::man(&options),
        Verb::Completions(options) => manual::completions(&options),
        #[cfg(target_os = "linux")]
        Verb::Ps(options) => ps::run(&options),
        #[cfg(target_os = "linux")]
        Verb::Stop(options) => stop::run(&options),
        #[cfg(target_os = "linux")]
        Verb::Reap(options) => reap::run(&options),
        #[cfg(target_os = "linux")]
        Verb::Stats(options) => stats::run(&options),
        #[cfg(target_os = "linux")]
        Verb::Doctor(options) => doctor::run(&options),
        #[cfg(not(target_os = "linux"))]
        Verb::Ps(words)
        | Verb::Stop(words)
        | Verb::Reap(words)
        | Verb::Stats(words)
        | Verb::Doctor(words) => Err(words.refuse()),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// Waits for what a launcher does on its own threads.
#[cfg(target_os = "linux")]
fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(future))
}
