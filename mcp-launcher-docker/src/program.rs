//! The program of `init/`: process 1 of supervised containers, and the process that
//! outlives a host. Executed from memory, so that nobody can put another in its
//! place and no file system need allow it.

use std::io;
use std::process::{Child, Command};

#[cfg(init_available)]
pub(crate) const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mcp-init"));
#[cfg(not(init_available))]
pub(crate) const PROGRAM: &[u8] = &[];

pub(crate) const NONE: &str =
    "this build has no program for it: it is for Linux on x86_64 and aarch64";

/// Starts the program on this machine, with the arguments and streams that
/// `prepare` sets.
#[cfg(all(target_os = "linux", init_available))]
pub(crate) fn start(prepare: impl Fn(&mut Command)) -> io::Result<Child> {
    use mcp_lifecycle_host::program;
    use std::os::fd::OwnedFd;
    use std::sync::OnceLock;
    const NAME: &str = "mcp-init";
    static MEMORY: OnceLock<OwnedFd> = OnceLock::new();
    /// A private file without a name, where executing memory is refused.
    static FILE: OnceLock<OwnedFd> = OnceLock::new();

    let spawn = |image: &OwnedFd| {
        use std::os::fd::AsFd;
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::process::CommandExt;
        let path = program::exec_path(image.as_fd())?;
        let mut command = Command::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        command.arg0(NAME);
        prepare(&mut command);
        command.spawn()
    };
    let by_file = || {
        let file = || program::unnamed_file(NAME, PROGRAM, &program::directories());
        spawn(once(&FILE, file)?)
    };
    if FILE.get().is_some() {
        return by_file();
    }
    let in_memory = || program::sealed_memfd(c"mcp-init", PROGRAM);
    match once(&MEMORY, in_memory).and_then(spawn) {
        Err(error) if program::is_refusal(&error) => by_file(),
        started => started,
    }
}

#[cfg(not(all(target_os = "linux", init_available)))]
pub(crate) fn start(_: impl Fn(&mut Command)) -> io::Result<Child> {
    Err(io::Error::new(io::ErrorKind::Unsupported, NONE))
}

/// A failure may pass, and is not remembered.
#[cfg(all(target_os = "linux", init_available))]
fn once<T>(place: &std::sync::OnceLock<T>, make: impl FnOnce() -> io::Result<T>) -> io::Result<&T> {
    match place.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(place.get_or_init(|| made))
        }
    }
}
