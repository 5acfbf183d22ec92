//! Directories for records that outlive a process. Their place depends on the user ID, so that
//! hosts find each other's state with any environment (`docs/containment.md`).

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::geteuid;

use crate::sys::may_write;

/// Variable that names one directory to use instead of all others.
const STATE: &str = "MCP_LIFECYCLE_STATE_DIR";

/// The reason a directory is not used.
#[derive(Debug)]
pub enum Refused {
    /// It does not exist.
    Missing,
    /// It belongs to another user, so it holds no state of this one.
    Foreign(u32),
    /// It is this user's, but cannot be used or read.
    Unusable(io::Error),
}

/// Returns every directory in which this user may have state, best first.
pub fn candidates() -> Vec<PathBuf> {
    places(geteuid().as_raw(), |name| env::var_os(name))
}

/// Returns the candidates, if this user can have state in none of them. Creates nothing.
pub fn refusal() -> Option<String> {
    let is_usable = |path: &PathBuf| match open_own(path) {
        Err(Refused::Missing) => path.parent().is_some_and(may_write),
        found => found.is_ok() && may_write(path),
    };
    let all = candidates();
    (!all.iter().any(is_usable)).then(|| format!("{all:?}"))
}

/// Lists the candidates. Without an override, only the last two depend on the environment. Pure.
fn places(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let absolute = |name| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    if let Some(only) = absolute(STATE) {
        return vec![only];
    }
    let own = format!("mcp-lifecycle-{user}");
    let system = (user == 0).then(|| PathBuf::from("/run/mcp-lifecycle"));
    let mut places: Vec<PathBuf> = system.into_iter().collect();
    places.push(format!("/run/user/{user}/mcp-lifecycle").into());
    places.extend(["/tmp", "/var/tmp", "/dev/shm"].map(|parent| Path::new(parent).join(&own)));
    places.extend(absolute("XDG_RUNTIME_DIR").map(|path| path.join("mcp-lifecycle")));
    places.extend(absolute("TMPDIR").map(|path| path.join(&own)));
    let mut seen = BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    places
}

/// Opens or creates a directory that is this user's alone. Its parent must exist.
///
/// # Errors
///
/// [`Refused`].
pub fn make(path: &Path) -> Result<OwnedFd, Refused> {
    make_in(AT_FDCWD, path)
}

/// Does the same within an open directory.
pub fn make_in(within: impl AsFd, path: &Path) -> Result<OwnedFd, Refused> {
    match mkdirat(&within, path, Mode::S_IRWXU) {
        Ok(()) | Err(Errno::EEXIST) => open_own_in(within, path),
        Err(Errno::ENOENT) => Err(Refused::Missing),
        // It may exist although creation fails (a read-only file system).
        Err(errno) => match open_own_in(within, path) {
            Err(Refused::Missing) => Err(Refused::Unusable(errno.into())),
            found => found,
        },
    }
}

/// Opens a directory if only this user can write to it. Checks the descriptor, since a name in
/// `/tmp` can be replaced between check and open.
///
/// # Errors
///
/// [`Refused`].
pub fn open_own(path: &Path) -> Result<OwnedFd, Refused> {
    open_own_in(AT_FDCWD, path)
}

/// Does the same within an open directory.
pub fn open_own_in(within: impl AsFd, path: &Path) -> Result<OwnedFd, Refused> {
    let refused = |errno: Errno| Refused::Unusable(errno.into());
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let directory = openat(&within, path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::ENOENT => Refused::Missing,
        errno => owner_of(&within, path).map_or(refused(errno), Refused::Foreign),
    })?;
    let stat = fstat(&directory).map_err(refused)?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(Refused::Foreign(stat.st_uid));
    }
    if !is_own(&stat, SFlag::S_IFDIR) {
        let open = "it is open to other users; give it mode 0700";
        return Err(Refused::Unusable(io::Error::other(open)));
    }
    Ok(directory)
}

fn owner_of(within: impl AsFd, path: &Path) -> Option<u32> {
    let owner = fstatat(within, path, AtFlags::AT_SYMLINK_NOFOLLOW)
        .ok()?
        .st_uid;
    (owner != geteuid().as_raw()).then_some(owner)
}

/// Returns whether the file is of this kind and accessible to this user alone.
pub fn is_own(stat: &FileStat, kind: SFlag) -> bool {
    let others = Mode::S_IRWXG | Mode::S_IRWXO;
    stat.st_uid == geteuid().as_raw()
        && SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
        && stat.st_mode & others.bits() == 0
}

/// Lists the names in a directory.
pub fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    // Reopened, since a duplicate shares the read position.
    let mut listing = Dir::openat(
        directory,
        ".",
        OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(user: u32, variables: &[(&str, &str)]) -> Vec<String> {
        let find = |name: &str| {
            let found = variables.iter().find(|variable| variable.0 == name);
            found.map(|variable| OsString::from(variable.1))
        };
        let places = places(user, find);
        places
            .into_iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn the_first_choice_does_not_depend_on_the_environment() {
        let bare = paths(1000, &[]);
        assert_eq!(
            bare,
            [
                "/run/user/1000/mcp-lifecycle",
                "/tmp/mcp-lifecycle-1000",
                "/var/tmp/mcp-lifecycle-1000",
                "/dev/shm/mcp-lifecycle-1000",
            ]
        );
        let named = paths(1000, &[("XDG_RUNTIME_DIR", "/x"), ("TMPDIR", "/y")]);
        assert_eq!(named[..4], bare);
        assert_eq!(named[4..], ["/x/mcp-lifecycle", "/y/mcp-lifecycle-1000"]);
        assert_eq!(paths(0, &[])[0], "/run/mcp-lifecycle");
    }

    #[test]
    fn what_is_named_twice_is_looked_into_once_and_what_is_relative_never() {
        let usual = [("XDG_RUNTIME_DIR", "/run/user/1000"), ("TMPDIR", "/tmp")];
        assert_eq!(paths(1000, &usual), paths(1000, &[]));
        let relative = [("XDG_RUNTIME_DIR", "x"), ("TMPDIR", ""), (STATE, "y")];
        assert_eq!(paths(1000, &relative), paths(1000, &[]));
    }

    #[test]
    fn one_that_is_asked_for_by_name_is_the_only_one() {
        let variables = [("XDG_RUNTIME_DIR", "/x"), (STATE, "/own")];
        assert_eq!(paths(1000, &variables), ["/own"]);
    }
}
