//! AArch64: entry point, system call instruction and numbers.

use core::arch::{asm, global_asm};

pub(super) mod nr {
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const CONNECT: usize = 203;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const CLOSE_RANGE: usize = 436;
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
