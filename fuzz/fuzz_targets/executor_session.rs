//! The client's session, with a peer that says anything at any time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_launcher_executor::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::client_session(bytes));
