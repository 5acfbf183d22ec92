//! Any bytes as certificates and a key.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_executor::fuzzing;
use mcp_lifecycle_fuzz::bounded;

fuzz_target!(|bytes: &[u8]| bounded(bytes, fuzzing::pem));
