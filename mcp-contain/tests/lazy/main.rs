//! A server that runs only while it is used, as its host sees it.

#![cfg(target_os = "linux")]

mod bad_input;
mod cached;
#[path = "../run/chance.rs"]
#[expect(dead_code, reason = "what the other tests need")]
mod chance;
#[path = "../run/flow.rs"]
mod flow;
#[path = "../run/host.rs"]
#[expect(dead_code, reason = "what the other tests need")]
mod host;
mod input;
mod lives;
mod long;
mod orphans;
mod random;
mod real;
mod restart;
mod session;
mod shim;
mod signals;
mod streams;
mod suspend;
mod watch;

/// The options of the level of containment, for what this shares with `run`.
const LEVEL: &[&str] = &[];
