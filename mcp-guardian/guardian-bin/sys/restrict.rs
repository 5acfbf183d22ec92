//! Restricts the calling process and all its descendants, for life.

use super::arch::{self, nr};
use super::{Fd, Result, scalar, syscall, word};

/// The program of seccomp(2) for what the rules do not reach: a child that is born in another cgroup
/// (`clone3`), and a limit of another process, at which the kernel kills it (`prlimit64`).
///
/// `clone3` is missing, as in containers, since its flags cannot be read here; C libraries call
/// `clone` then. Limits can be read, and a process can set its own (pid 0).
static FILTER: [u64; 17] = [
    step(LOAD, 0, 0, ARCHITECTURE),
    step(EQUAL, 3, 0, arch::AUDIT_32_BIT),
    step(LOAD, 0, 0, NUMBER),
    step(AND, 0, 0, !X32),
    step(EQUAL, 3, 2, nr::PRLIMIT64 as u32),
    step(LOAD, 0, 0, NUMBER),
    step(EQUAL, 1, 0, arch::PRLIMIT64_32_BIT),
    step(EQUAL, 8, 6, CLONE3),
    step(LOAD, 0, 0, PID),
    step(EQUAL, 4, 0, 0),
    step(LOAD, 0, 0, NEW_LIMIT),
    step(EQUAL, 0, 3, 0),
    step(LOAD, 0, 0, NEW_LIMIT + 4),
    step(EQUAL, 0, 1, 0),
    step(RETURN, 0, 0, ALLOW),
    step(RETURN, 0, 0, ERROR | EPERM),
    step(RETURN, 0, 0, ERROR | ENOSYS),
];

/// Returns an instruction: code, jumps if true and if false, operand.
const fn step(code: u64, yes: u64, no: u64, operand: u32) -> u64 {
    code | yes << 16 | no << 24 | (operand as u64) << 32
}

const LOAD: u64 = 0x20;
const AND: u64 = 0x54;
const EQUAL: u64 = 0x15;
const RETURN: u64 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
// Offsets in `seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const PID: u32 = 16;
const NEW_LIMIT: u32 = 32;
/// The bit that numbers of x32 have.
const X32: u32 = 0x4000_0000;
/// The same on every architecture.
const CLONE3: u32 = 435;

/// Restricts the caller, which has one thread, to these rules of landlock(7). It gets no new
/// privileges: a set-uid program could do what they refuse.
pub(crate) fn restrict(rules: &Fd) -> Result<()> {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const PR_SET_SECCOMP: usize = 22;
    const SECCOMP_MODE_FILTER: usize = 2;
    const LANDLOCK_RESTRICT_SELF: usize = 446;
    scalar(nr::PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0)?;
    // A `sock_fprog`: the length in two bytes, and the pointer.
    let program = [FILTER.len(), FILTER.as_ptr() as usize];
    // SAFETY: the kernel reads `program`, and so many instructions of eight bytes.
    unsafe { syscall(nr::PRCTL, [PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program.as_ptr() as usize, 0, 0, 0]) }?;
    scalar(LANDLOCK_RESTRICT_SELF, word(rules.0), 0, 0, 0).map(|_| ())
}
