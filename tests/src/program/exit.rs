//! Exit codes of the fixture's own failures, far from those that tests ask for.

use std::io::Write;
use std::process;

/// The command line is wrong.
const USAGE: i32 = 96;
/// The observer named by `--alive` cannot be reached.
const NO_OBSERVER: i32 = 97;
/// The operating system refused something that the shape is made of.
const REFUSED: i32 = 98;

pub(crate) fn usage(problem: &str) -> ! {
    fail(
        USAGE,
        &format!("{problem}\n\n{}", crate::program::shapes::usage_text()),
    )
}

pub(crate) fn no_observer(problem: &str) -> ! {
    fail(NO_OBSERVER, problem)
}

pub(crate) fn refused(what: &str, why: impl std::fmt::Display) -> ! {
    fail(REFUSED, &format!("{what}: {why}"))
}

fn fail(code: i32, text: &str) -> ! {
    // Not `eprintln!`: it panics where standard error is closed.
    let _ = writeln!(std::io::stderr(), "mcp-fixture: {text}");
    process::exit(code)
}
