//! Companions: that of one server, and those that outlived both shim and guardian of theirs.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use super::input;
use super::inventory::{command_line, try_see};
use super::known::{KnownProcess, KnownServer};
use crate::sys::{self, is_gone};

/// Finds the companion of a server: the process of this user with `role` as its first argument and,
/// as its standard input, the other end of a socket of the server's shim or guardian. `None` if it
/// has ended.
/// Fails if that cannot be found out.
pub fn companion(server: &KnownServer, role: &str) -> io::Result<Option<KnownProcess>> {
    let shim = Some(server.host.pid).filter(|_| server.host.is_wrapper);
    let mut peers = Err(io::ErrorKind::NotFound.into());
    // Both have the same one.
    for holder in shim.into_iter().chain(server.guardian) {
        peers = peers.or_else(|_: io::Error| input::peers_of(holder));
    }
    let peers = peers?;
    let is_its = |pid| match input::input_of(pid) {
        Ok(input) => Some(input.is_some_and(|input| peers.contains(&input))),
        Err(_) => None,
    };
    let [certain, possible] = all(role, is_its)?;
    match (certain.into_iter().next(), possible.first()) {
        (Some(its), _) => Ok(Some(its)),
        (None, Some(other)) => Err(io::Error::other(format!(
            "process {} may be the companion, and cannot be examined",
            other.pid
        ))),
        (None, None) => Ok(None),
    }
}

/// Finds companions of this user, with `role` as their first argument, that have outlived both shim
/// and guardian of their server: the other end of their standard input is closed, or that cannot be
/// found out. A process that may be one and cannot be examined is returned too.
pub fn without_server(role: &str) -> io::Result<Vec<KnownProcess>> {
    let found = all(role, |pid| Some(input::may_be_without_server(pid)))?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the wanted ones, and candidates that could not be examined, which proves nothing.
fn all(role: &str, is_wanted: impl Fn(u32) -> Option<bool>) -> io::Result<[Vec<KnownProcess>; 2]> {
    let user = nix::unistd::geteuid().as_raw();
    let may_be_own = |pid: u32| match fs::metadata(format!("/proc/{pid}")) {
        Ok(it) => it.uid() == user,
        Err(error) => !is_gone(&error),
    };
    let [mut certain, mut possible] = [Vec::new(), Vec::new()];
    let pids = sys::numbers_in_proc()?.into_iter();
    for pid in pids.filter(|it| may_be_own(*it)) {
        let Some(seen) = sys::look_at(pid)? else {
            continue;
        };
        let is_wanted = is_wanted(pid);
        if is_wanted == Some(false) {
            continue;
        }
        let words = command_line(pid, seen.start_time).ok();
        let has_role = words.map(|words| words.get(1).is_some_and(|word| word == role));
        // It may have ended meanwhile.
        let now = || io::Result::Ok(try_see(pid)?.filter(|now| now.start_time == seen.start_time));
        match both(is_wanted, has_role) {
            Some(false) => {}
            Some(true) => certain.extend(now()?),
            None => possible.extend(now()?),
        }
    }
    Ok([certain, possible])
}

/// Returns whether both hold; `None` if that is unknown.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_is_unknown_unless_decided() {
        assert_eq!(both(Some(true), Some(true)), Some(true));
        assert_eq!(both(Some(true), None), None);
        assert_eq!(both(None, Some(true)), None);
        assert_eq!(both(None, None), None);
        assert_eq!(both(None, Some(false)), Some(false));
        assert_eq!(both(Some(false), None), Some(false));
    }
}
