//! Clients that come, say anything in pieces, are cut off, and resume.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_executor::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::connections(bytes));
