//! `/proc`, where its pids are those of the PID namespace of this process. Elsewhere they mean other
//! processes: then nothing is read, neither for a signal nor for a name.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process;
use std::sync::OnceLock;

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::super::uninterrupted;

/// The inode number of the first PID namespace (`PROC_PID_INIT_INO` in Linux), which all processes
/// of the machine are in.
pub const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

pub const OTHER_PROC: &str = "the /proc here is that of another PID namespace";

const PROC: &str = "/proc";

/// A `/proc` that shows the PID namespace of this process.
struct OwnProc {
    /// Kept open, so that its device number is not reused, and a mount over its path does not matter.
    directory: File,
    device: u64,
    /// The process that has read this: a fork of it may be in another namespace.
    process: u32,
    namespace: u64,
}

impl OwnProc {
    fn look() -> io::Result<Self> {
        let directory = File::open(PROC)?;
        if !shows_own_namespace(&text_of("/proc/thread-self/status")?) {
            return Err(io::Error::other(OTHER_PROC));
        }
        Ok(Self {
            device: directory.metadata()?.dev(),
            directory,
            process: process::id(),
            namespace: own_namespace()?,
        })
    }

    /// Reads `/proc` through a handle that is made once: the namespace is the same for life.
    fn with<T>(read: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        static OWN: OnceLock<OwnProc> = OnceLock::new();
        if let Some(own) = OWN.get().filter(|own| own.process == process::id()) {
            return read(own);
        }
        let own = Self::look()?;
        let result = read(&own);
        let _ = OWN.set(own);
        result
    }
}

/// Returns the PID namespace of this process. Fails if `/proc` shows the pids of another one.
pub fn home() -> io::Result<u64> {
    OwnProc::with(|own| match fs::metadata(PROC)?.dev() == own.device {
        true => Ok(own.namespace),
        false => OwnProc::look().map(|other| other.namespace),
    })
}

/// Returns the content of a process's file in `/proc`. Fails as [`home`] does, or to read it.
pub fn bytes_of_process(pid: u32, file: &str) -> io::Result<Vec<u8>> {
    OwnProc::with(|own| {
        let path = format!("{pid}/{file}");
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let open = || openat(own.directory.as_fd(), path.as_str(), flags, Mode::empty());
        whole(File::from(uninterrupted(open)?))
    })
}

/// Opens the listing of `/proc`. Fails as [`home`] does.
pub(super) fn listing() -> io::Result<Dir> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    OwnProc::with(|own| {
        Ok(Dir::openat(
            own.directory.as_fd(),
            ".",
            flags,
            Mode::empty(),
        )?)
    })
}

/// Reads a file of `/proc` as text: names of processes, mounts and cgroups are arbitrary bytes.
pub fn text_of(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(path)?).into_owned())
}

/// Reads a file of `/proc`, a page at once, while [`fs::read`] begins with 32 bytes.
pub fn bytes_of(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    whole(File::open(path)?)
}

fn whole(file: File) -> io::Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut bytes = Vec::with_capacity(PAGE);
    // With a limit, `read_to_end` does not query the length.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether this error of opening or reading a file of `/proc/PID` means that the process
/// has gone.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Does the same as [`text_of`] for a process of this PID namespace.
pub(super) fn text_of_process(pid: u32, file: &str) -> io::Result<String> {
    let bytes = bytes_of_process(pid, file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the PID namespace of this process, by its inode number.
pub fn own_namespace() -> io::Result<u64> {
    namespace_at(Path::new("/proc/thread-self/ns/pid"))
}

/// Returns the PID namespace of a process.
pub fn namespace_of(pid: u32) -> io::Result<u64> {
    // Without an allocation: the end of a server examines every process of the machine.
    let mut path = [0; 32];
    let room = path.len();
    let mut rest = path.as_mut_slice();
    write!(rest, "/proc/{pid}/ns/pid")?;
    let len = room - rest.len();
    namespace_at(Path::new(OsStr::from_bytes(&path[..len])))
}

fn namespace_at(link: &Path) -> io::Result<u64> {
    match fs::metadata(link) {
        Ok(namespace) => Ok(namespace.ino()),
        // A kernel without PID namespaces: all processes are in one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let process = link.ancestors().nth(2).unwrap_or(link);
            fs::metadata(process).map(|_| FIRST_NAMESPACE)
        }
        Err(error) => Err(error),
    }
}

/// Returns the pids of a process by its `/proc/PID/status`: first in the namespace of that `/proc`,
/// last in its own. `None` without PID namespaces.
pub fn numbers_in(status: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map(str::split_ascii_whitespace)
}

/// Returns whether a `/proc` shows the PID namespace of the process that has this status.
pub fn shows_own_namespace(status: &str) -> bool {
    numbers_in(status).is_none_or(|numbers| numbers.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_of_an_outer_namespace_is_known_by_two_numbers() {
        assert!(shows_own_namespace("Name:\tx\nNSpid:\t42\nNSpgid:\t1\t2\n"));
        assert!(!shows_own_namespace("NSpid:\t42\t1\n"));
        assert!(shows_own_namespace("Name:\tx\n"), "without namespaces");
    }

    /// Returns the number of read calls of this thread, including this one.
    fn reads() -> Option<u64> {
        let io = text_of("/proc/thread-self/io").ok()?;
        let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
        count?.parse().ok()
    }

    #[test]
    fn a_file_of_a_page_is_read_at_once() {
        let Some(before) = reads() else {
            eprintln!("SKIPPED: this kernel does not count reads");
            return;
        };
        let status = text_of("/proc/thread-self/status").unwrap();
        let after = reads().unwrap();
        assert!(status.len() > 512 && status.ends_with('\n'), "{status}");
        // The reads of the file and its end, of the end of the first counter, and of the second
        // one.
        assert!(after - before <= 4, "{} reads", after - before);
    }
}
