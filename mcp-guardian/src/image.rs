//! An embedded program in executable form: in sealed memory or, where that is refused, in an
//! unlinked private file. Neither can be replaced.

use std::env;
use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::file_size;

/// A program. Stays open after its first run; children do not inherit its descriptors.
#[derive(Debug)]
pub struct Image {
    name: &'static CStr,
    program: &'static [u8],
    lowest: RawFd,
    memory: OnceLock<OwnedFd>,
    /// Filled when executing from memory is refused for the first time.
    file: OnceLock<OwnedFd>,
}

impl Image {
    /// Returns the program `name`. Its descriptors are numbered `lowest` or above, clear of those
    /// that are passed to the process that executes it.
    pub const fn new(name: &'static CStr, program: &'static [u8], lowest: RawFd) -> Self {
        Self {
            name,
            program,
            lowest,
            memory: OnceLock::new(),
            file: OnceLock::new(),
        }
    }

    /// Puts the program into a file, in the first of `directories` that allows it.
    ///
    /// # Errors
    ///
    /// The last directory's.
    pub fn in_file(self, directories: &[PathBuf]) -> io::Result<Self> {
        self.file(directories)?;
        Ok(self)
    }

    /// Calls `run`, which executes the [path](exec_path) of the given descriptor: memory, or a file
    /// if memory was [refused](is_refusal).
    ///
    /// # Errors
    ///
    /// Errors of `run` and of the system, which may be transient.
    pub fn run<T>(&self, run: impl Fn(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        if self.file.get().is_none() {
            let memory = open(&self.memory, self.lowest, || {
                sealed_memfd(self.name, self.program)
            });
            match memory.and_then(|memory| run(memory.as_fd())) {
                Err(error) if is_refusal(&error) => {}
                done => return done,
            }
        }
        run(self.file(&directories())?.as_fd())
    }

    fn file(&self, directories: &[PathBuf]) -> io::Result<&OwnedFd> {
        open(&self.file, self.lowest, || {
            unnamed_file(&self.name.to_string_lossy(), self.program, directories)
        })
    }
}

/// Opens it once, with `lowest` as its number or a greater one.
fn open(
    place: &OnceLock<OwnedFd>,
    lowest: RawFd,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> io::Result<&OwnedFd> {
    if let Some(open) = place.get() {
        return Ok(open);
    }
    let mut open = make()?;
    let mut below = Vec::new();
    while open.as_raw_fd() < lowest {
        let next = open.try_clone()?;
        below.push(std::mem::replace(&mut open, next));
    }
    Ok(place.get_or_init(|| open))
}

/// Returns whether `error` says that execution is forbidden, or the file too large, rather than failed.
pub fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        Errno::EACCES,
        Errno::EPERM,
        Errno::ENOSYS,
        Errno::ENOENT,
        Errno::EFBIG,
    ];
    refusals
        .map(|errno| Some(errno as i32))
        .contains(&error.raw_os_error())
}

fn sealed_memfd(name: &CStr, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Newer kernels may require the flag; older ones reject it.
    let memfd = match memfd_create(name, flags | MFdFlags::from_bits_retain(libc::MFD_EXEC)) {
        Err(Errno::EINVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    let mut file = File::from(memfd);
    file_size::shielded(|| file.write_all(program))?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// Returns the directories that may allow a private executable file, best first.
pub fn directories() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let own = runtime.into_iter().chain([env::temp_dir()]);
    own.chain(["/dev/shm", "/var/tmp"].map(PathBuf::from))
        .collect()
}

/// Puts the program into an unlinked file of this user that is not open for writing.
fn unnamed_file(name: &str, program: &[u8], directories: &[PathBuf]) -> io::Result<OwnedFd> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in directories {
        match unnamed_file_in(name, program, directory) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn unnamed_file_in(name: &str, program: &[u8], directory: &Path) -> io::Result<OwnedFd> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".{name}-{}-{number}", process::id()));
    // `create_new` follows no symbolic link and opens no existing file.
    let mut writer = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&path)?;
    let written = file_size::shielded(|| writer.write_all(program));
    // Reopened by descriptor: the name may mean another file by now.
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
    Ok(reader.into())
}

fn is_noexec(file: &File) -> io::Result<bool> {
    use nix::sys::statvfs::{FsFlags, fstatvfs};
    Ok(fstatvfs(file)?.flags().contains(FsFlags::ST_NOEXEC))
}

/// Returns the path that executes the open file `fd`, even between fork and exec.
pub fn exec_path(fd: BorrowedFd<'_>) -> io::Result<CString> {
    CString::new(format!("/proc/thread-self/fd/{}", fd.as_raw_fd())).map_err(io::Error::other)
}
