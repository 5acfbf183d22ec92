//! The program of `init/` of `mcp-lifecycle-host`: process 1 of supervised containers, and the process that
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
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;

    use mcp_lifecycle_host::program::{Image, exec_path};
    /// Below are the standard streams of the process.
    const LOWEST: i32 = 3;
    static IMAGE: Image = Image::new(c"mcp-init", PROGRAM, LOWEST);

    IMAGE.run(|image| {
        let path = exec_path(image)?;
        let mut command = Command::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        command.arg0("mcp-init");
        prepare(&mut command);
        command.spawn()
    })
}

#[cfg(not(all(target_os = "linux", init_available)))]
pub(crate) fn start(_: impl Fn(&mut Command)) -> io::Result<Child> {
    Err(io::Error::new(io::ErrorKind::Unsupported, NONE))
}
