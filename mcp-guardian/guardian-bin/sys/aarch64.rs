//! AArch64: entry point, system call instruction and numbers.

use core::arch::{asm, global_asm};

/// The largest page a kernel may use; a smaller one divides it.
pub(super) const PAGE: usize = 65536;

/// Fails unless the path is a directory.
pub(super) const O_DIRECTORY: usize = 0o40_000;
/// Follows no symbolic link.
pub(super) const O_NOFOLLOW: usize = 0o100_000;

/// The architecture of 32-bit programs, in seccomp(2), and their number of `prlimit64`.
pub(super) const AUDIT_32_BIT: u32 = 0x4000_0028;
pub(super) const PRLIMIT64_32_BIT: u32 = 369;

pub(super) mod nr {
    pub const FCNTL: usize = 25;
    pub const EPOLL_CREATE1: usize = 20;
    pub const EPOLL_CTL: usize = 21;
    pub const IOCTL: usize = 29;
    pub const UNLINKAT: usize = 35;
    pub const CHDIR: usize = 49;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const GETDENTS64: usize = 61;
    pub const LSEEK: usize = 62;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PREAD64: usize = 67;
    pub const READLINKAT: usize = 78;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD4: usize = 74;
    pub const EXIT_GROUP: usize = 94;
    pub const WAITID: usize = 95;
    pub const CLOCK_GETTIME: usize = 113;
    pub const KILL: usize = 129;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const SETPGID: usize = 154;
    pub const SETSID: usize = 157;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETEUID: usize = 175;
    pub const GETEGID: usize = 177;
    pub const SOCKET: usize = 198;
    pub const CONNECT: usize = 203;
    pub const SENDMSG: usize = 211;
    pub const RECVFROM: usize = 207;
    pub const GETSOCKOPT: usize = 209;
    pub const SHUTDOWN: usize = 210;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MADVISE: usize = 233;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT64: usize = 261;
    pub const CLOSE_RANGE: usize = 436;
}

// The kernel enters with the stack pointer, aligned to 16, at argc.
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "bl {entry}",
    "brk #1",
    entry = sym super::args::entry,
);

/// Makes a system call.
///
/// # Safety
///
/// The call must be sound with these arguments: pointers must be valid for all that the kernel
/// reads and writes.
#[inline]
pub(super) unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction clobbers only x0, which is declared; the caller vouches for memory.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0].cast_signed() => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}
