//! The guardian program, in a form that can be executed.

use std::env;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::protocol::FIRST_FREE_FD;
use super::sys;

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
        match sealed_memfd() {
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

/// Whether `error` says that executing is forbidden, not that it failed.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let refusals =
        [Errno::EACCES, Errno::EPERM, Errno::ENOSYS, Errno::ENOENT].map(|errno| Some(errno as i32));
    refusals.contains(&error.raw_os_error())
}

fn check_support() -> io::Result<()> {
    if cfg!(not(guardian_available)) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this build contains no guardian for its architecture",
        ));
    }
    // Every guardian is held by a pidfd. Found out here, before anything is started.
    match sys::pidfd_open(process::id()) {
        Err(error) if is_refusal(&error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "pidfds are not available",
        )),
        other => other.map(drop),
    }
}

/// The program in anonymous memory that nothing can change any more.
fn sealed_memfd() -> io::Result<OwnedFd> {
    const NAME: &std::ffi::CStr = c"mcp-guardian";
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels that know the flag may insist on it; older ones do not know it.
    let memfd = match memfd_create(NAME, flags | MFdFlags::from_bits_retain(libc::MFD_EXEC)) {
        Err(Errno::EINVAL) => memfd_create(NAME, flags)?,
        other => other?,
    };
    let mut file = File::from(memfd);
    file.write_all(PROGRAM)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    above_passed(file.into())
}

/// Where a file of our own can be executed from, best first.
fn directories() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let own = runtime.into_iter().chain([env::temp_dir()]);
    own.chain(["/dev/shm", "/var/tmp"].map(PathBuf::from))
        .collect()
}

fn unnamed_file(directories: &[PathBuf]) -> io::Result<OwnedFd> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in directories {
        match unnamed_file_in(directory) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The program in a file that only its owner can open, has no name any more, and nobody has open for writing.
fn unnamed_file_in(directory: &Path) -> io::Result<OwnedFd> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".mcp-guardian-{}-{number}", process::id()));
    // `create_new` follows no symbolic link and opens nothing that exists.
    let mut writer = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&path)?;
    let written = writer.write_all(PROGRAM);
    // Reopened through the descriptor, not the name: it is the same file whatever happened to the name.
    let reader = written.and_then(|()| {
        File::open(
            exec_path(writer.as_fd())?
                .to_str()
                .map_err(io::Error::other)?,
        )
    });
    fs::remove_file(&path)?;
    let reader = reader?;
    drop(writer);
    if is_noexec(&reader)? {
        return Err(Errno::EACCES.into());
    }
    above_passed(reader.into())
}

fn is_noexec(file: &File) -> io::Result<bool> {
    use nix::sys::statvfs::{FsFlags, fstatvfs};
    Ok(fstatvfs(file)?.flags().contains(FsFlags::ST_NOEXEC))
}

/// The path that executes what is open as `fd`, also in a process that is about to exec.
pub(super) fn exec_path(fd: BorrowedFd<'_>) -> io::Result<CString> {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(io::Error::other)
}

/// The same file under a number that is not one of those the guardian's descriptors are put under.
fn above_passed(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE_FD {
        Ok(fd)
    } else {
        sys::duplicate_from(fd.as_fd(), FIRST_FREE_FD)
    }
}
