//! Verbs about what runs, what was left behind, and what ended.

mod demo;
mod doctor;
mod foreign;
mod left;
mod logs;
mod ps;
mod reap;
mod stats;
mod stop;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use mcp_guardian::sys;

use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List the running servers: the program that uses each, its CPU and memory, and what ends it
    Ps(ps::Options),
    /// End one server, and prove that nothing of it is left
    Stop(stop::Options),
    /// End one server that runs with --restart or --lazy, and have another one started in its place, for the same session
    Restart(stop::Options),
    /// Print what --log has kept of a running server's standard error
    Logs(logs::Options),
    /// End servers that were left behind by a program that is gone
    Reap(reap::Options),
    /// Show how servers ended so far: by themselves, when asked, or killed
    Stats(stats::Options),
    /// Show what was left behind and how to end it, and which hosts are wrapped
    Doctor(doctor::Options),
    /// Show on real processes what a host leaves behind without mcp-contain, and with it
    Demo(demo::Options),
}

pub(crate) fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Ps(options) => ps::run(options),
        Verb::Stop(options) => stop::run(options, false),
        Verb::Restart(options) => stop::run(options, true),
        Verb::Logs(options) => logs::run(options),
        Verb::Reap(options) => reap::run(options),
        Verb::Stats(options) => stats::run(options),
        Verb::Doctor(options) => doctor::run(options),
        Verb::Demo(options) => demo::run(options),
    }
}

/// Returns whether a process or a pipe ends in time.
fn ends_within(end: &impl AsFd, limit: Duration) -> bool {
    sys::ends_within(end.as_fd(), limit).unwrap_or(false)
}

/// Holds a process by pidfd.
fn hold(pid: u32) -> io::Result<OwnedFd> {
    let pid = sys::Pid::new(pid.into()).ok_or(io::ErrorKind::InvalidInput)?;
    sys::hold(pid)
}
