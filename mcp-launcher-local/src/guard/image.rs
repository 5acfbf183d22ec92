//! The guardian program, in a form that can be executed.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
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

fn in_memory() -> io::Result<OwnedFd> {
    above_passed(program::sealed_memfd(c"mcp-guardian", PROGRAM)?)
}

fn unnamed_file(directories: &[PathBuf]) -> io::Result<OwnedFd> {
    above_passed(program::unnamed_file("mcp-guardian", PROGRAM, directories)?)
}

/// The same file under a number that is not one of those the guardian's descriptors are put under.
fn above_passed(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE_FD {
        Ok(fd)
    } else {
        sys::duplicate_from(fd.as_fd(), FIRST_FREE_FD)
    }
}
