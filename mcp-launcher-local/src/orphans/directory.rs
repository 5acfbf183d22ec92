//! Where ledgers are.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{geteuid, mkdir};

/// Every directory in which this user may have ledgers, best first.
pub(super) fn candidates() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("mcp-lifecycle"));
    let temporary = env::temp_dir().join(format!("mcp-lifecycle-{}", geteuid()));
    runtime.into_iter().chain([temporary]).collect()
}

/// The first directory that is, or can be made, ours alone.
pub(super) fn make() -> io::Result<OwnedFd> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for path in candidates() {
        let made = match mkdir(&path, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => open_own(&path),
            Err(errno) => Err(errno.into()),
        };
        match made {
            Ok(directory) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Opens a directory if nobody but this user can write to it.
///
/// Judged by what was opened, not by the name: between the two, a name in a
/// shared directory can come to mean something else.
pub(super) fn open_own(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    let stat = fstat(&directory)?;
    if is_own(&stat, SFlag::S_IFDIR) {
        Ok(directory)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether this is of that kind, and this user's alone.
pub(super) fn is_own(stat: &FileStat, kind: SFlag) -> bool {
    let others = Mode::S_IRWXG | Mode::S_IRWXO;
    stat.st_uid == geteuid().as_raw()
        && SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
        && stat.st_mode & others.bits() == 0
}

/// The names of all ledgers in a directory.
pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStringExt;
    let mut listing = Dir::from_fd(directory.try_clone()?)?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name.ends_with(b".ledger") || name.ends_with(b".new") {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}
