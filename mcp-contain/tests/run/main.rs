//! The wrapper as a host sees it: streams, signals, exit codes.

#![cfg(target_os = "linux")]

mod bad_input;
mod bytes;
mod cost;
mod ends;
mod exits;
mod host;
mod levels;
