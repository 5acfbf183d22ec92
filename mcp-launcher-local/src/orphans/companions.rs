//! Companions: that of one server, and those whose server has nobody left who would tell them of its end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use super::input;
use super::inventory::{command_line, try_see};
use crate::inventory::{KnownProcess, KnownServer};
use crate::sys;
use crate::sys::stat::is_gone;

/// Looks for the one that the shim or the guardian of a server is connected to.
pub(crate) fn companion(server: &KnownServer, role: &str) -> io::Result<Option<KnownProcess>> {
    let shim = Some(server.host.pid).filter(|_| server.host.is_wrapper);
    let mut peers = Err(io::ErrorKind::NotFound.into());
    // Each of them has the same one.
    for holder in shim.into_iter().chain(server.guardian) {
        peers = peers.or_else(|_: io::Error| input::peers_of(holder));
    }
    let peers = peers?;
    let is_its = |pid| match input::input_of(pid) {
        Ok(input) => Some(input.is_some_and(|input| peers.contains(&input))),
        Err(_) => None,
    };
    let found = all(role, is_its)?;
    match (found.certain.into_iter().next(), found.possible.first()) {
        (Some(its), _) => Ok(Some(its)),
        (None, Some(other)) => Err(io::Error::other(format!(
            "process {} may be it, and cannot be asked",
            other.pid
        ))),
        (None, None) => Ok(None),
    }
}

/// Looks for those of whose servers nobody is left, or of whom that cannot be told. Who cannot be asked may be one.
pub(crate) fn bereaved(role: &str) -> io::Result<Vec<KnownProcess>> {
    let found = all(role, |pid| Some(input::may_be_bereaved(pid)))?;
    Ok(found.certain.into_iter().chain(found.possible).collect())
}

#[derive(Default)]
struct Found {
    certain: Vec<KnownProcess>,
    /// Who may be one: a look that failed says nothing.
    possible: Vec<KnownProcess>,
}

/// This user's processes whose first argument is `role`, and which are wanted.
fn all(role: &str, is_wanted: impl Fn(u32) -> Option<bool>) -> io::Result<Found> {
    let user = nix::unistd::geteuid().as_raw();
    let may_be_own = |pid: u32| match fs::metadata(format!("/proc/{pid}")) {
        Ok(it) => it.uid() == user,
        Err(error) => !is_gone(&error),
    };
    let mut found = Found::default();
    for pid in sys::numbers_in_proc()?
        .into_iter()
        .filter(|it| may_be_own(*it))
    {
        let Some(seen) = sys::look_at(pid)? else {
            continue;
        };
        let is_wanted = is_wanted(pid);
        if is_wanted == Some(false) {
            continue;
        }
        let words = command_line(pid, seen.start_time).ok();
        let has_role = words.map(|words| words.get(1).is_some_and(|word| word == role));
        let is_one = both(is_wanted, has_role);
        if is_one == Some(false) {
            continue;
        }
        // One that has ended meanwhile is none.
        let now = try_see(pid)?.filter(|now| now.start_time == seen.start_time);
        match is_one {
            Some(_) => found.certain.extend(now),
            None => found.possible.extend(now),
        }
    }
    Ok(found)
}

/// Whether both are so; `None` if that cannot be told.
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
    fn what_cannot_be_told_is_neither_so_nor_not() {
        assert_eq!(both(Some(true), Some(true)), Some(true));
        assert_eq!(both(Some(true), None), None);
        assert_eq!(both(None, Some(true)), None);
        assert_eq!(both(None, None), None);
        assert_eq!(both(None, Some(false)), Some(false));
        assert_eq!(both(Some(false), None), Some(false));
    }
}
