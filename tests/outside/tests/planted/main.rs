//! The launcher of the guide with a fault. The kit tells each, and how to mend it.
//!
//! Without `PLANT=FAULT` this runs the kit on every fault, and looks whether the right
//! cell has failed with the right words.

#[path = "../../src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library elsewhere")]
mod bare;
mod launcher;
mod terminator;

use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, str};

use libtest_mimic::{Arguments, Failed, Trial};
use mcp_lifecycle_conformance::{Kit, fixture_main};

use launcher::Planted;

/// Names the fault.
const PLANT: &str = "PLANT";
/// The variable with the kit's limit, in seconds.
const LIMIT: &str = "MCP_PLANTED_LIMIT";
/// The time that is waited for what does not happen, in seconds.
const LIMITS: [u64; 2] = [2, 20];

/// A fault, the cell that tells it, and words that point at it.
#[rustfmt::skip]
const FAULTS: &[(&str, &str, &str)] = &[
    ("kills-the-main-process-only", "a forced end reaches as far as declared", "and still alive: daemon"),
    ("helpers-die-later", "a forced end reaches as far as declared", "ended a little later"),
    ("kills-in-a-runtime-only", "the last resort needs no runtime", "without or after a runtime"),
    ("cancelled-launch-goes-on", "plain x cancelled", "dropped after poll"),
    ("keeps-a-descriptor", "a server that has ended leaves nothing in its host", "+ fd /dev/null"),
    ("leaves-a-zombie", "a server that has ended leaves nothing in its host", "+ zombie"),
    ("ignores-the-directory", "arguments, directory and environment are delivered", "the working directory is to be \"/proc\""),
    ("passes-the-environment", "arguments, directory and environment are delivered", "the host's environment variable MCP_CONFORMANCE_"),
    ("merges-standard-error", "arguments, directory and environment are delivered", "writes to standard error comes on standard output"),
    ("exits-with-0", "the exit status is true, for many waiters and late ones", "it exited with 42"),
    ("polite-is-sigkill", "the polite signal arrives", "event \"sigterm\" was expected"),
    ("keeps-standard-input-open", "end of file arrives, and no signal with it", "somebody holds the write end"),
    ("hangs-for-a-missing-program", "a program that does not exist is an error, and leaves nothing", "the error does not come"),
    ("reaps-by-command-line", "reap_orphans spares strangers with the same command line", "of somebody else, with the command line of a server"),
    ("tied-to-a-thread-that-ends", "a server answers on its streams", "SIGKILL that nobody has ordered"),
    ("tied-to-a-pool-thread", "a server outlives the thread that started it", "when a thread of its host had"),
    ("server-holds-its-own-input", "end of file arrives, and no signal with it", "somebody holds the write end"),
    ("placed-after-an-exec", "ignore-eof x spawning", "host killed a"),
    ("placed-after-2-ms", "ignore-eof x spawning", "host killed a"),
    ("names-no-survivors", "survivors names the living, and nobody after the end", "a living server is not named"),
    ("input-is-dev-null", "a server answers on its streams", "the end of its standard input, which nobody has closed"),
    ("is-pid-1", "the identity is that of the server", "the identity is pid 1"),
    ("blocks", "a launch blocks no thread of the runtime", "has held the thread that polled it for 50"),
    ("joins-its-arguments", "arguments, directory and environment are delivered", "the arguments were"),
    ("never-gone", "end of file arrives, and no signal with it", "the proof does not come"),
    ("outlives-its-host", "ignore-eof x host killed", "when the host dies abruptly"),
];

fn main() -> ExitCode {
    // A server has an environment without the fault.
    if env::args().nth(1).as_deref() == Some("mcp-fixture") {
        fixture_main();
    }
    if let Ok(fault) = env::var(PLANT) {
        let kit = Kit::new(fault.clone(), move || {
            let fault = fault.clone();
            async { Planted::new(fault) }
        });
        let seconds = env::var(LIMIT).ok().and_then(|text| text.parse().ok());
        return kit
            .limit(Duration::from_secs(seconds.unwrap_or(LIMITS[0])))
            .main();
    }
    let trial = |&(fault, cell, words)| Trial::test(fault, move || is_told(fault, cell, words));
    let trials = FAULTS.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Checks that the cell reports the fault: within the short limit, or the long one where the machine
/// is busy.
fn is_told(fault: &str, cell: &str, words: &str) -> Result<(), Failed> {
    let mut output = String::new();
    for limit in LIMITS {
        let run = Command::new(env::current_exe()?)
            .env(PLANT, fault)
            .env(LIMIT, limit.to_string())
            // What is red here on purpose is in nobody's table.
            .env_remove("MCP_CONFORMANCE_SUMMARY")
            .output()?;
        output = String::from_utf8(run.stdout)?;
        let failed = output.split("\n---- ").skip(1);
        let text = failed.filter_map(|told| told.split_once(" ----\n"));
        let mut ours = text.filter(|(name, _)| *name == format!("{fault}: {cell}"));
        if !run.status.success() && ours.any(|(_, text)| text.contains(words)) {
            return Ok(());
        }
    }
    Err(format!("{cell:?} does not say {words:?}:\n{output}").into())
}
