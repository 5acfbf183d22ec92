//! The relay of a server (`--lazy`, `--restart`), which starts its successor.

use std::fs;
use std::os::fd::OwnedFd;

use mcp_tree::inventory::KnownServer;
use rustix::process::{Signal, pidfd_send_signal};

use crate::failure::Failure;
use crate::operate::{hold, ps};

/// Holds the relay of a server.
pub(in crate::operate) fn of(server: &KnownServer) -> Result<OwnedFd, Failure> {
    let relay = pid(server).and_then(|pid| hold(pid).ok().filter(|_| is_relay(pid)));
    relay.ok_or_else(|| {
        let name = ps::name_of(server);
        Failure::plain(format_args!(
            "{name} is not restarted, for nothing would start it again: put `--restart` or `--lazy` after `mcp-contain` in front of its command"
        ))
    })
}

/// Returns the process that restarts a server, if there is one.
pub(super) fn pid(server: &KnownServer) -> Option<u32> {
    let parent = server.host.parent.as_ref().map(|(pid, _)| *pid);
    parent.filter(|pid| server.host.is_wrapper && is_relay(*pid))
}

/// Returns whether a process waits for SIGURG, as its command line says. Another one would ignore it.
fn is_relay(pid: u32) -> bool {
    let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let text = |name| String::from_utf8_lossy(&read(name)).into_owned();
    let (status, words) = (text("status"), text("cmdline"));
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let waits = blocked.is_some_and(|mask| mask >> (Signal::URG.as_raw() - 1) & 1 == 1);
    waits
        && ["\0--lazy\0", "\0--restart\0"]
            .iter()
            .any(|word| words.contains(word))
}

/// Has the relay end its server for a successor.
pub(super) fn restart(relay: &OwnedFd) -> Result<(), Failure> {
    let failed = |error| Failure::plain(format_args!("its relay cannot be asked: {error}"));
    pidfd_send_signal(relay, Signal::URG).map_err(failed)
}
