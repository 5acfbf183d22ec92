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

pub use console::when_asked;
pub use job::Job;
pub use parent::Parent;
pub use place::{
    DEFAULT_PATH, command_interpreter, limit_of, may_execute, names_a_path, spellings, variable,
};
pub use port::Heard;
pub use process::{Process, Start, Wait};
pub use streams::{InputState, hand_over, input};

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_BAD_EXE_FORMAT, ERROR_EXE_MACHINE_TYPE_MISMATCH,
    ERROR_FILE_NOT_FOUND,
};
use windows_sys::core::BOOL;

/// Succeeds: there is no fork here.
pub fn own_servers() -> io::Result<()> {
    Ok(())
}

pub fn not_forked() -> io::Result<()> {
    Ok(())
}

pub fn is_not_executable(code: i32) -> bool {
    matches!(
        code.cast_unsigned(),
        ERROR_FILE_NOT_FOUND
            | ERROR_ACCESS_DENIED
            | ERROR_BAD_EXE_FORMAT
            | ERROR_EXE_MACHINE_TYPE_MISMATCH
    )
}

pub fn is_shortage(error: &io::Error) -> bool {
    limit_of(error).is_some()
}

pub fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

fn check(answer: BOOL) -> io::Result<()> {
    match answer {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
