//! posix_spawn(2) on macOS, for what std does not do: a process that starts suspended, and has no descriptor but those that it is
//! given. Unmeasured: compiled, and run on no machine of ours.

use std::ffi::{CString, OsStr, c_char, c_int, c_short};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{getsockopt, sockopt};

use super::super::Pid;

/// A process to be started, as the leader of a process group.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Path,
    /// With `argv[0]`.
    pub(crate) arguments: Vec<&'a OsStr>,
    pub(crate) environment: Vec<(&'a OsStr, &'a OsStr)>,
    /// What its descriptors 0, 1, 2, ... are.
    pub(crate) descriptors: &'a [BorrowedFd<'a>],
    /// It executes nothing before it is sent SIGCONT.
    pub(crate) is_suspended: bool,
}

/// Above all numbers that a started process is given.
const SPARE: c_int = 10;

/// Starts a process.
pub(crate) fn start(start: &Start<'_>) -> io::Result<Pid> {
    let program = text(start.program.as_os_str().as_bytes().to_vec())?;
    let arguments = start.arguments.iter();
    let arguments = arguments.map(|argument| text(argument.as_bytes().to_vec()));
    let arguments: Vec<CString> = arguments.collect::<io::Result<_>>()?;
    let variables = start.environment.iter();
    let variables =
        variables.map(|(name, value)| text([name.as_bytes(), b"=", value.as_bytes()].concat()));
    let variables: Vec<CString> = variables.collect::<io::Result<_>>()?;
    // None of them is where another one is to go.
    let descriptors = start.descriptors.iter().map(|fd| {
        let copy = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(SPARE))?;
        // SAFETY: it was just made, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) })
    });
    let descriptors: Vec<OwnedFd> = descriptors.collect::<io::Result<_>>()?;
    let mut actions = Actions::new()?;
    for (number, fd) in (0..).zip(&descriptors) {
        actions.place(fd.as_fd(), number)?;
    }
    let attributes = Attributes::new(start.is_suspended)?;
    let (arguments, variables) = (pointers(&arguments), pointers(&variables));
    let mut pid = 0;
    // SAFETY: all texts end in NUL, both lists in a null pointer, and everything outlives the call.
    result(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            variables.as_ptr(),
        )
    })?;
    Pid::new(pid.into()).ok_or_else(|| io::Error::other("an impossible process id"))
}

fn text(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    let texts = texts.iter().map(|text| text.as_ptr().cast_mut());
    texts.chain([ptr::null_mut()]).collect()
}

/// The error that these functions return, rather than set.
fn result(errno: c_int) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = ptr::null_mut();
        // SAFETY: there is room for what is written.
        result(unsafe { libc::posix_spawn_file_actions_init(&raw mut actions) })?;
        Ok(Self(actions))
    }

    /// Gives this descriptor a number in the process. What is not placed is closed there.
    fn place(&mut self, fd: BorrowedFd<'_>, number: c_int) -> io::Result<()> {
        // SAFETY: it was initialized.
        result(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut self.0, fd.as_raw_fd(), number)
        })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is used no more.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A group of its own, no descriptor that is not placed, and the signals as std's children have them; SIGCHLD besides,
    /// so that nobody's children vanish.
    fn new(is_suspended: bool) -> io::Result<Self> {
        let mut attributes = ptr::null_mut();
        // SAFETY: there is room for what is written.
        result(unsafe { libc::posix_spawnattr_init(&raw mut attributes) })?;
        let mut new = Self(attributes);
        let mut flags = libc::POSIX_SPAWN_SETPGROUP
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_CLOEXEC_DEFAULT;
        if is_suspended {
            flags |= libc::POSIX_SPAWN_START_SUSPENDED;
        }
        let flags = c_short::try_from(flags).map_err(io::Error::other)?;
        let (none, usual) = (signals(&[]), signals(&[libc::SIGPIPE, libc::SIGCHLD]));
        // SAFETY: it was initialized.
        result(unsafe { libc::posix_spawnattr_setflags(&raw mut new.0, flags) })?;
        // SAFETY: as above.
        result(unsafe { libc::posix_spawnattr_setpgroup(&raw mut new.0, 0) })?;
        // SAFETY: as above, and the set is one.
        result(unsafe { libc::posix_spawnattr_setsigmask(&raw mut new.0, &raw const none) })?;
        // SAFETY: as above.
        result(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut new.0, &raw const usual) })?;
        Ok(new)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is used no more.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

fn signals(all: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: there is room for what is written.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in all {
        // SAFETY: the set is one, and the signal exists.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: zeroes are valid for it, and so is what was written.
    unsafe { set.assume_init() }
}

/// Takes over the socket that this process was started with, which nobody else in it knows.
pub(crate) fn inherited_socket(number: i32) -> io::Result<UnixStream> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is only asked whether there is one.
    Errno::result(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: it is open, by the contract of the variable that names it nobody else has it, and nobody has opened one since the
    // start of this process, of which this is the first thing that it does.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    getsockopt(&fd, sockopt::SockType)?;
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let socket = UnixStream::from(fd);
    without_sigpipe(&socket)?;
    Ok(socket)
}

/// Makes a write to a socket whose other end is gone an error, also in a program that leaves SIGPIPE as it was.
pub(crate) fn without_sigpipe(socket: &UnixStream) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: the option is a number, and there is one to be read.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NOSIGPIPE,
            (&raw const on).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(set).map(drop)?)
}
