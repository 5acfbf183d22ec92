//! The input of a process: repeated, held, refused writes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_executor::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::stdin(bytes));
