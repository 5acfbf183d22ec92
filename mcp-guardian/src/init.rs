//! The supervised init: process 1 of a container or pod, and the last will of a host. It is the
//! guardian's program in another role.

use std::io;
use std::process::{Child, Command};

/// The program, a static ELF file for Linux on this architecture. Empty where it is not available.
pub const PROGRAM: &[u8] = {
    #[cfg(programs_available)]
    {
        include_bytes!(concat!(env!("OUT_DIR"), "/mcp-guardian"))
    }
    #[cfg(not(programs_available))]
    {
        &[]
    }
};

/// The reason why [`PROGRAM`] is empty.
pub const NOT_AVAILABLE: &str =
    "this build has no program for it: it is for Linux on x86_64 and aarch64";

/// Returns whether this build has the program.
pub const fn is_available() -> bool {
    !PROGRAM.is_empty()
}

/// Starts the program from memory, with the arguments and streams that `prepare` sets.
///
/// # Errors
///
/// Errors of the system; [`Unsupported`](io::ErrorKind::Unsupported) where there is no program.
#[cfg(target_os = "linux")]
pub fn start(prepare: impl Fn(&mut Command)) -> io::Result<Child> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;

    use crate::image::{Image, exec_path};
    /// Above the standard streams of the process.
    const LOWEST: i32 = 3;
    static IMAGE: Image = Image::new(c"mcp-init", PROGRAM, LOWEST);

    if !is_available() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, NOT_AVAILABLE));
    }
    IMAGE.run(|image| {
        let path = exec_path(image)?;
        let mut command = Command::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        command.arg0("mcp-init");
        prepare(&mut command);
        command.spawn()
    })
}

/// Fails: [`Unsupported`](io::ErrorKind::Unsupported) on this system.
#[cfg(not(target_os = "linux"))]
pub fn start(_: impl Fn(&mut Command)) -> io::Result<Child> {
    Err(io::Error::new(io::ErrorKind::Unsupported, NOT_AVAILABLE))
}
