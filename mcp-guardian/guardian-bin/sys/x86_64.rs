//! x86-64: entry point, system call instruction and numbers.

use core::arch::{asm, global_asm};

pub(super) const PAGE: usize = 4096;

/// Fails unless the path is a directory.
pub(super) const O_DIRECTORY: usize = 0o200_000;
/// Follows no symbolic link.
pub(super) const O_NOFOLLOW: usize = 0o400_000;

/// The architecture of 32-bit programs, in seccomp(2), and their number of `prlimit64`.
pub(super) const AUDIT_32_BIT: u32 = 0x4000_0003;
pub(super) const PRLIMIT64_32_BIT: u32 = 340;

pub(super) mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDMSG: usize = 46;
    pub const RECVFROM: usize = 45;
    pub const SHUTDOWN: usize = 48;
    pub const GETSOCKOPT: usize = 55;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const SETPGID: usize = 109;
    pub const GETPPID: usize = 110;
    pub const SETSID: usize = 112;
    pub const PRCTL: usize = 157;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const EPOLL_CTL: usize = 233;
    pub const WAITID: usize = 247;
    pub const OPENAT: usize = 257;
    pub const UNLINKAT: usize = 263;
    pub const READLINKAT: usize = 267;
    pub const PPOLL: usize = 271;
    pub const SIGNALFD4: usize = 289;
    pub const EPOLL_CREATE1: usize = 291;
    pub const PIPE2: usize = 293;
    pub const PRLIMIT64: usize = 302;
    pub const CLOSE_RANGE: usize = 436;
}

// The kernel enters with the stack pointer at argc. A call pushes eight bytes, so align to 16
// first.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
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
    // SAFETY: the instruction clobbers only rax, rcx and r11, all declared; the caller vouches for
    // memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number.cast_signed() => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}
