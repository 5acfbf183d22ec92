//! The guardian program, in a form that can be executed.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcp_lifecycle_host::program::{self, directories};
pub(super) use mcp_lifecycle_host::program::{exec_path, is_refusal};

use super::protocol::FIRST_FREE_FD;
use crate::sys;

#[cfg(guardian_available)]
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mcp-guardian"));
#[cfg(not(guardian_available))]
const PROGRAM: &[u8] = &[];

/// The guardian program, kept open for as long as the host lives.
///
/// Its descriptors close on exec, so no server sees them.
#[derive(Debug)]
pub struct GuardianImage {
    /// `None` where memfds cannot be created.
    memfd: Option<OwnedFd>,
    /// Filled when executing the memfd is refused for the first time.
    file: OnceLock<OwnedFd>,
}

impl GuardianImage {
    /// The image of this process, created on first use.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] if this build contains no guardian (neither `x86_64` nor `aarch64`) or the kernel has no pidfds (before
    /// 5.3). Anything else is a failure that may pass, such as too many open files; it is not remembered.
    pub fn get() -> io::Result<&'static Self> {
        static IMAGE: OnceLock<GuardianImage> = OnceLock::new();
        if let Some(image) = IMAGE.get() {
            return Ok(image);
        }
        let image = Self::new()?;
        Ok(IMAGE.get_or_init(|| image))
    }

    fn new() -> io::Result<Self> {
        check_support()?;
        match in_memory() {
            Ok(memfd) => Ok(Self {
                memfd: Some(memfd),
                file: OnceLock::new(),
            }),
            Err(error) if is_refusal(&error) => Self::in_directories(&directories()),
            Err(error) => Err(error),
        }
    }

    /// An image in a private file that has no name any more, in the first of `directories` that allows it.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get); or the last directory's error.
    #[doc(hidden)]
    pub fn in_directories(directories: &[PathBuf]) -> io::Result<Self> {
        check_support()?;
        Ok(Self {
            memfd: None,
            file: OnceLock::from(unnamed_file(directories)?),
        })
    }

    /// What to execute.
    pub(super) fn current(&self) -> io::Result<BorrowedFd<'_>> {
        let open = self.file.get().or(self.memfd.as_ref());
        open.map(OwnedFd::as_fd)
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// What to execute instead, after executing the memfd was refused. `None` if it was not the memfd.
    pub(super) fn after_refusal(
        &self,
        refused: BorrowedFd<'_>,
    ) -> Option<io::Result<BorrowedFd<'_>>> {
        self.memfd
            .as_ref()
            .filter(|memfd| memfd.as_raw_fd() == refused.as_raw_fd())?;
        if let Some(file) = self.file.get() {
            return Some(Ok(file.as_fd()));
        }
        Some(unnamed_file(&directories()).map(|file| self.file.get_or_init(|| file).as_fd()))
    }
}

fn check_support() -> io::Result<()> {
    if cfg!(not(guardian_available)) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this build contains no guardian for its architecture",
        ));
    }
    // Every guardian is held by a pidfd. Found out here, before anything is started.
    match sys::hold_this() {
        Err(error) if is_refusal(&error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "pidfds are not available",
        )),
        other => other.map(drop),
    }
}

const NAME: &CStr = c"mcp-guardian";

fn in_memory() -> io::Result<OwnedFd> {
    above_passed(program::sealed_memfd(NAME, PROGRAM)?)
}

fn unnamed_file(directories: &[PathBuf]) -> io::Result<OwnedFd> {
    let name = NAME.to_string_lossy();
    above_passed(program::unnamed_file(&name, PROGRAM, directories)?)
}

/// Whether a guardian's program can be called so in `/proc/PID/exe`: it is in memory, or
/// in a private file that has no name any more.
pub(crate) fn is_image_path(path: &Path) -> bool {
    let Some(path) = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"))
    else {
        return false;
    };
    let name = NAME.to_string_lossy();
    if path.strip_prefix("/memfd:") == Some(&*name) {
        return true;
    }
    let file = path
        .rsplit('/')
        .next()
        .and_then(|file| file.strip_prefix('.'));
    let numbers = file.and_then(|file| file.strip_prefix(&*name)?.strip_prefix('-'));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    numbers.is_some_and(|numbers| numbers.split('-').map(is_number).eq([true, true]))
}

/// Whether this is a guardian's program, also of another version: it is small, and says
/// what it is called. What cannot be read may be one.
pub(crate) fn is_image(file: &File) -> bool {
    const SIZE_MAX: u64 = 256 * 1024;
    let mut program = Vec::new();
    let read = file.take(SIZE_MAX + 1).read_to_end(&mut program);
    let name = NAME.to_bytes_with_nul();
    let says_so = || program.windows(name.len()).any(|part| part == name);
    read.is_err() || (program.len() as u64 <= SIZE_MAX && says_so())
}

/// The same file under a number that is not one of those the guardian's descriptors are put under.
fn above_passed(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE_FD {
        Ok(fd)
    } else {
        sys::duplicate_from(fd.as_fd(), FIRST_FREE_FD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_that_it_can_have_are_its() {
        let is_its = |path: &str| is_image_path(Path::new(path));
        assert!(is_its("/memfd:mcp-guardian (deleted)"));
        assert!(is_its("/dev/shm/.mcp-guardian-77-0 (deleted)"));
        for other in [
            "/memfd:mcp-guardian-2 (deleted)",
            "/usr/bin/mcp-guardian",
            "/usr/bin/mcp-guardian (deleted)",
            "/usr/bin/my-mcp-guardian-tool (deleted)",
            "/tmp/.mcp-guardian-77-0",
            "/tmp/.mcp-guardian-77 (deleted)",
            "/tmp/.mcp-guardian-77-0-1 (deleted)",
            "/tmp/.mcp-guardian-x-0 (deleted)",
        ] {
            assert!(!is_its(other), "{other}");
        }
    }

    #[cfg(guardian_available)]
    #[test]
    fn it_is_known_by_what_it_says_in_either_form() {
        let file = unnamed_file(&directories()).unwrap();
        for image in [in_memory().unwrap(), file] {
            // From its beginning, whoever has written it.
            let path = format!("/proc/self/fd/{}", image.as_raw_fd());
            assert!(is_image(&File::open(path).unwrap()));
        }
        assert!(!is_image(&File::open("/proc/self/exe").unwrap()));
        assert!(!is_image(&File::open("/dev/null").unwrap()));
    }
}
