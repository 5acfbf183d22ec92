//! The wrapper as a host sees it, at the level that every Unix has: the tests that a Mac runs.

#![cfg(unix)]

mod bytes;
#[expect(dead_code, reason = "what the other tests need")]
mod chance;
mod ends;
#[cfg(target_os = "linux")]
mod exits;
mod flow;
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, reason = "what the other tests need")
)]
mod host;

/// The options of the level of containment.
const LEVEL: &[&str] = &["--group"];

/// Ignores everything, with a helper.
const STUBBORN: &str = "trap '' TERM INT; S='printf . >&9; while :; do read never <&8; done'; sh -c \"$S\" & eval \"$S\"";
