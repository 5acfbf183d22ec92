//! The wrapper as a host sees it: streams, signals, exit codes.

#![cfg(target_os = "linux")]

mod abandoned;
mod bad_input;
mod bytes;
#[expect(dead_code, reason = "what the other tests need")]
mod chance;
mod cost;
mod direct;
mod ends;
mod exclusive;
mod exits;
mod flow;
mod guarded;
mod hardened;
mod host;
mod keep;
mod levels;
mod memory;
mod not_kept;
mod options;
mod report;
mod terminal;
mod writable;

/// The options of the level of containment.
const LEVEL: &[&str] = &[];

/// Ignores everything, with a helper in a session of its own.
const STUBBORN: &str = "trap '' TERM INT; S='printf . >&9; while :; do read never <&8; done'; setsid sh -c \"$S\" & eval \"$S\"";
