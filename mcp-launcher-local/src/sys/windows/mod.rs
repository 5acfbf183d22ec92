//! All system calls of Windows. Callers contain no `unsafe`.
//!
//! ```text
//! job ────── a job object: made, asked, ended
//! port ───── the one thread that hears of empty jobs and of ended processes
//! process ── a process: started inside of a job, waited for, named
//! console ── the request to end
//! place ──── where programs are
//! parent ─── the process that started this one
//! streams ── the standard streams of this process, handed on
//! ```

mod attributes;
mod console;
mod job;
mod parent;
mod place;
mod port;
mod process;
mod streams;

pub(crate) use console::when_asked;
pub(crate) use job::Job;
pub(crate) use parent::Parent;
pub(crate) use place::{
    DEFAULT_PATH, command_interpreter, limit_of, may_execute, names_a_path, spellings, variable,
};
pub(crate) use port::Heard;
pub(crate) use process::{Process, Start, Wait};
pub(crate) use streams::{InputState, hand_over, input};

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_BAD_EXE_FORMAT, ERROR_EXE_MACHINE_TYPE_MISMATCH,
    ERROR_FILE_NOT_FOUND,
};
use windows_sys::core::BOOL;

/// Servers belong to the process that launches them: nobody forks here.
pub(crate) fn own_servers() -> io::Result<()> {
    Ok(())
}

/// As [`own_servers`].
pub(crate) fn not_forked() -> io::Result<()> {
    Ok(())
}

/// Nobody is found again by an identity: nobody outlives its job.
pub(crate) fn own_start_time() -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// As [`own_start_time`].
pub(crate) fn boot_id() -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether this error of a start says that the file cannot be executed.
pub(crate) fn is_not_executable(code: i32) -> bool {
    matches!(
        code.cast_unsigned(),
        ERROR_FILE_NOT_FOUND
            | ERROR_ACCESS_DENIED
            | ERROR_BAD_EXE_FORMAT
            | ERROR_EXE_MACHINE_TYPE_MISMATCH
    )
}

/// Returns whether this error says that there was no memory or no handle.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    limit_of(error).is_some()
}

/// Runs code that reports to others, whose panics are theirs alone.
pub(crate) fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

/// What a call says that answers with TRUE or with an error.
fn check(answer: BOOL) -> io::Result<()> {
    match answer {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
