//! An MCP server over stdio that misbehaves in one way per subcommand.
//!
//! It exists to be launched, mistreated and proven dead. `std`, `nix` and
//! `serde_json` only, no runtime: it starts in about a millisecond and builds
//! as a static binary (`-C target-feature=+crt-static`) for an image without
//! a file system.
//!
//! # Proof of death
//!
//! With `--alive ADDRESS` every process of the fixture connects there as soon as
//! it takes signals the way it was told to, and says `hello <role> <pid>`: whoever
//! has heard that may send SIGTERM. The connection is held for life and inherited by children, so **end of file on it proves that every
//! holder is dead**. See [`alive`] for the lines that follow.
//!
//! # It cannot leak by itself
//!
//! When the observer goes away every process exits, whatever it was told to
//! ignore, and an alarm ends those that have no observer. A failing test
//! therefore leaves nothing behind on a developer's machine.

mod alive;
mod args;
mod exit;
mod family;
mod message;
mod protocol;
mod serve;
pub(crate) mod shapes;
mod sys;
mod tools;

#[cfg(unix)]
pub(crate) use sys::exit_main_thread;

use crate::program::alive::Alive;
use crate::program::args::Args;

/// Context that every part of the fixture gets to see.
#[derive(Clone)]
pub(crate) struct Context {
    args: Args,
    alive: Option<Alive>,
}

impl Context {
    /// Tells the observer, if there is one.
    fn event(&self, text: &str) {
        if let Some(alive) = &self.alive {
            alive.event(text);
        }
    }

    /// Opens a connection of its own for this process, in place of the one
    /// that it inherited.
    fn connect(&mut self, role: &str) {
        self.alive = self
            .args
            .alive
            .as_ref()
            .map(|address| Alive::connect(address, role));
    }
}

/// The word before the command line of a fixture inside of another program.
pub(crate) const INSIDE: &str = "mcp-fixture";

/// Runs the server that the kit observes, as the command line says; never returns.
///
/// For a program that a launcher starts where this one cannot run, such as an image of
/// a container: a `src/bin/mcp-fixture.rs` of one line.
pub fn fixture_main() -> ! {
    let argv = std::env::args().skip(1).skip_while(|word| word == INSIDE);
    let args = match Args::parse(argv) {
        Ok(args) => args,
        Err(problem) => exit::usage(&problem),
    };
    let mut context = Context { args, alive: None };
    #[cfg(windows)]
    sys::keep_streams();
    sys::limit_lifetime(context.args.lifetime);
    sys::report_sigterm(context.args.ignore_term);
    let role = context.args.role.clone();
    context.connect(&role);
    shapes::run(context)
}
