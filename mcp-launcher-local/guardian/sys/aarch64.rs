//! AArch64: entry point, system call instruction and numbers.

use core::arch::{asm, global_asm};

/// The largest page a kernel may use; a smaller one divides it.
pub(super) const PAGE: usize = 65536;

pub(super) mod nr {
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const PIPE2: usize = 59;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const WAITID: usize = 95;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SETPGID: usize = 154;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const GETEUID: usize = 175;
    pub(crate) const GETEGID: usize = 177;
    pub(crate) const GETPPID: usize = 173;
    pub(crate) const SENDTO: usize = 206;
    pub(crate) const RECVFROM: usize = 207;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const MADVISE: usize = 233;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const PRLIMIT64: usize = 261;
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
    entry = sym super::entry,
);

/// # Safety
///
/// The call must be sound for the kernel to make with these arguments: pointers among them valid for what it reads and writes.
pub(super) unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction clobbers x0 only, which is declared; memory it touches is the caller's to vouch for.
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
