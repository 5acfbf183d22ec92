//! Any bytes as a request whose parameters the daemon judges, and as a token.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_executor::fuzzing;
use mcp_lifecycle_fuzz::bounded;

fuzz_target!(|bytes: &[u8]| bounded(bytes, fuzzing::params));
