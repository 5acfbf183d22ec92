//! Between fork and exec: system calls, for a process that may have had threads.

use std::ffi::{CStr, c_long};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

/// Runs `hook` in the child that is forked for this command. It must not allocate, nor wait for a
/// lock.
pub(crate) fn before_exec(
    command: &mut Command,
    hook: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: by what is asked of the hook, which this crate alone writes.
    unsafe { command.pre_exec(hook) };
}

/// Forks by the system call: the C library's fork runs handlers that take locks. Returns `None` in
/// the child.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    let (signal, none) = (c_long::from(libc::SIGCHLD), 0 as c_long);
    // SAFETY: no stack is given, and memory is not shared: the child continues with a copy.
    let forked = unsafe { libc::syscall(libc::SYS_clone, signal, none, none, none, none) };
    let pid = Pid::from_raw(Errno::result(forked)? as i32);
    Ok((pid.as_raw() != 0).then_some(pid))
}

/// Gives a descriptor this number, where exec does not close it.
pub(crate) fn place(fd: RawFd, number: RawFd) -> Result<(), Errno> {
    // SAFETY: in a child before exec, which uses the number for nothing else.
    Errno::result(unsafe { libc::dup2(fd, number) }).map(drop)
}

/// Executes an open program, with one variable. Returns what failed.
pub(crate) fn execute(program: BorrowedFd<'_>, arguments: &[&CStr], variable: &CStr) -> Errno {
    const ARGUMENTS_MAX: usize = 15;
    let mut argv = [ptr::null(); ARGUMENTS_MAX + 1];
    for (place, argument) in argv[..ARGUMENTS_MAX].iter_mut().zip(arguments) {
        *place = argument.as_ptr();
    }
    let env = [variable.as_ptr(), ptr::null()];
    // SAFETY: terminated strings, and vectors that end with a null, which live during the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    Errno::last()
}
