//! All system calls of Windows. Callers contain no `unsafe`.
//!
//! ```text
//! job ────── a job object: created, queried, ended
//! port ───── the one thread that waits for empty jobs and ended processes
//! process ── a process: started inside of a job, waited for, named
//! console ── the request to end
//! place ──── finds programs
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

/// Succeeds: there is no fork here.
pub(crate) fn own_servers() -> io::Result<()> {
    Ok(())
}

pub(crate) fn not_forked() -> io::Result<()> {
    Ok(())
}

pub(crate) fn is_not_executable(code: i32) -> bool {
    matches!(
        code.cast_unsigned(),
        ERROR_FILE_NOT_FOUND
            | ERROR_ACCESS_DENIED
            | ERROR_BAD_EXE_FORMAT
            | ERROR_EXE_MACHINE_TYPE_MISMATCH
    )
}

pub(crate) fn is_shortage(error: &io::Error) -> bool {
    limit_of(error).is_some()
}

pub(crate) fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

fn check(answer: BOOL) -> io::Result<()> {
    match answer {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
