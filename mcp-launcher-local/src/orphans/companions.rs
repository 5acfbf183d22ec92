//! Companions: that of one server, and those whose server has nobody left who would tell them of its end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use super::input;
use super::inventory::{command_line, see};
use crate::inventory::{KnownProcess, KnownServer};
use crate::sys;

/// Looks for the one that the shim or the guardian of a server is connected to.
pub(crate) fn companion(server: &KnownServer, role: &str) -> io::Result<Option<KnownProcess>> {
    let shim = Some(server.host.pid).filter(|_| server.host.is_wrapper);
    let mut peers = Err(io::ErrorKind::NotFound.into());
    // Each of them has the same one.
    for holder in shim.into_iter().chain(server.guardian) {
        peers = peers.or_else(|_: io::Error| input::peers_of(holder));
    }
    let peers = peers?;
    let is_its = |pid| input::input_of(pid).is_some_and(|input| peers.contains(&input));
    Ok(all(role, is_its)?.into_iter().next())
}

/// Looks for those of whose servers nobody is left, or of whom that cannot be told.
pub(crate) fn bereaved(role: &str) -> io::Result<Vec<KnownProcess>> {
    all(role, input::may_be_bereaved)
}

/// This user's processes whose first argument is `role`.
fn all(role: &str, is_wanted: impl Fn(u32) -> bool) -> io::Result<Vec<KnownProcess>> {
    let user = nix::unistd::geteuid().as_raw();
    let is_own = |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user);
    let is_one = |process: &sys::Seen| {
        let words = command_line(process.pid, process.start_time);
        words.get(1).is_some_and(|word| word == role) && is_wanted(process.pid)
    };
    let numbers = sys::numbers_in_proc()?.into_iter();
    let seen = numbers.filter(|pid| is_own(*pid)).filter_map(sys::see);
    // One that has ended meanwhile is none.
    let still = seen
        .filter(is_one)
        .filter_map(|it| see(it.pid).filter(|now| now.start_time == it.start_time));
    Ok(still.collect())
}
