//! System calls that another thread or process answers: a seccomp filter that
//! asks (seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc::{self, c_long, seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// One call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    /// The thread that makes it.
    pub(crate) thread: u32,
    pub(crate) number: c_long,
    pub(crate) args: [u64; 6],
}

/// Where calls are answered.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// One instruction of a filter.
pub(crate) fn step(code: u32, jt: u8, k: u32) -> sock_filter {
    let code = u16::try_from(code).unwrap();
    sock_filter { code, jt, jf: 0, k }
}

pub(crate) const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub(crate) const EQUALS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub(crate) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Where `struct seccomp_data` has the number of the call.
pub(crate) const NUMBER: u32 = 0;

/// Has calls of this thread, and of all that come from it, judged by `program`
/// from now on.
pub(crate) fn install(mut program: Vec<sock_filter>) -> io::Result<OwnedFd> {
    let mut filter = sock_fprog {
        len: u16::try_from(program.len()).unwrap(),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the call takes numbers only.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the kernel reads the program, which lives until after the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw mut filter,
        )
    };
    let fd = RawFd::try_from(Errno::result(fd)?).unwrap();
    // SAFETY: the kernel has just created it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Listener {
    /// The next call; `None` if whoever made it was killed meanwhile.
    pub(crate) fn receive(&self) -> Option<Call> {
        // SAFETY: all zeroes are valid for it, and what the kernel insists on.
        let mut asked: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif`.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut asked,
            )
        };
        (result == 0).then(|| Call {
            id: asked.id,
            thread: asked.pid,
            number: asked.data.nr.into(),
            args: asked.data.args,
        })
    }

    /// Lets a call happen, or has it fail without happening.
    pub(crate) fn answer(&self, call: Call, fault: Option<i32>) {
        let mut answer = seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: fault.map_or(0, |errno| -errno),
            flags: match fault {
                Some(_) => 0,
                None => libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            },
        };
        // SAFETY: the kernel reads one `seccomp_notif_resp`. An error means that
        // whoever made the call was killed meanwhile.
        let _ = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut answer,
            )
        };
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
