//! A program that comes with the host, in a form that can be executed: in memory, or,
//! where that is refused, in a private file that has no name any more. Nobody can put
//! another in its place.

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

/// A program, open for as long as the host lives once it was run. No child gets its
/// descriptors.
#[derive(Debug)]
pub struct Image {
    name: &'static CStr,
    program: &'static [u8],
    lowest: RawFd,
    memory: OnceLock<OwnedFd>,
    /// Filled when executing memory is refused for the first time.
    file: OnceLock<OwnedFd>,
}

impl Image {
    /// A program of this name. Its descriptors are numbered `lowest` or above: what is
    /// passed under a lower number to the process that executes it would take its place.
    #[must_use]
    pub const fn new(name: &'static CStr, program: &'static [u8], lowest: RawFd) -> Self {
        Self {
            name,
            program,
            lowest,
            memory: OnceLock::new(),
            file: OnceLock::new(),
        }
    }

    /// The same program in a file, in the first of `directories` that allows it.
    ///
    /// # Errors
    ///
    /// The last directory's.
    pub fn in_file(self, directories: &[PathBuf]) -> io::Result<Self> {
        let name = self.name.to_string_lossy();
        self.open(&self.file, &|| {
            unnamed_file(&name, self.program, directories)
        })?;
        Ok(self)
    }

    /// Runs it by `run`, which executes the [path](exec_path) of what it is given: memory,
    /// or, once that was [refused](is_refusal), a file.
    ///
    /// # Errors
    ///
    /// Those of `run` and of the system. None is remembered: it may pass.
    pub fn run<T>(&self, run: impl Fn(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        let by =
            |place, make: &dyn Fn() -> io::Result<OwnedFd>| run(self.open(place, make)?.as_fd());
        let by_file = || {
            let name = self.name.to_string_lossy();
            by(&self.file, &|| {
                unnamed_file(&name, self.program, &directories())
            })
        };
        if self.file.get().is_some() {
            return by_file();
        }
        match by(&self.memory, &|| sealed_memfd(self.name, self.program)) {
            Err(error) if is_refusal(&error) => by_file(),
            done => done,
        }
    }

    fn open<'a>(
        &self,
        place: &'a OnceLock<OwnedFd>,
        make: &dyn Fn() -> io::Result<OwnedFd>,
    ) -> io::Result<&'a OwnedFd> {
        if let Some(open) = place.get() {
            return Ok(open);
        }
        let mut open = make()?;
        let mut below = Vec::new();
        while open.as_raw_fd() < self.lowest {
            let next = open.try_clone()?;
            below.push(std::mem::replace(&mut open, next));
        }
        Ok(place.get_or_init(|| open))
    }
}

/// Returns whether `error` says that executing is forbidden, not that it failed.
#[must_use]
pub fn is_refusal(error: &io::Error) -> bool {
    let refusals =
        [Errno::EACCES, Errno::EPERM, Errno::ENOSYS, Errno::ENOENT].map(|errno| Some(errno as i32));
    refusals.contains(&error.raw_os_error())
}

/// The program in anonymous memory that nothing can change any more.
fn sealed_memfd(name: &CStr, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels that know the flag may insist on it; older ones do not know it.
    let memfd = match memfd_create(name, flags | MFdFlags::from_bits_retain(libc::MFD_EXEC)) {
        Err(Errno::EINVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    let mut file = File::from(memfd);
    file.write_all(program)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// The directories that a file of our own can be executed from, best first.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let own = runtime.into_iter().chain([env::temp_dir()]);
    own.chain(["/dev/shm", "/var/tmp"].map(PathBuf::from))
        .collect()
}

/// The program in a file that only its owner can open, has no name any more, and nobody
/// has open for writing.
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
    // `create_new` follows no symbolic link and opens nothing that exists.
    let mut writer = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&path)?;
    let written = writer.write_all(program);
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
    Ok(reader.into())
}

fn is_noexec(file: &File) -> io::Result<bool> {
    use nix::sys::statvfs::{FsFlags, fstatvfs};
    Ok(fstatvfs(file)?.flags().contains(FsFlags::ST_NOEXEC))
}

/// The path that executes what is open as `fd`, also in a process that is about to exec.
///
/// # Errors
///
/// None that can be made to happen.
pub fn exec_path(fd: BorrowedFd<'_>) -> io::Result<CString> {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(io::Error::other)
}
