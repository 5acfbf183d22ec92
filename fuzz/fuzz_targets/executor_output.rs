//! The output of a process, from the daemon's log over lost links to the client.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_executor::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::output(bytes));
