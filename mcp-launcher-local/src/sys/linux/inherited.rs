//! Attributes of a thread that a process which it starts inherits, and that `/proc` does not show.

/// The calling thread, for `ioprio_get` and `ioprio_set`.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

const NONE: libc::c_ulong = 0;

/// Each with its name; an attribute that this kernel has not is -1.
pub(crate) fn inherited_by_threads() -> impl Iterator<Item = (&'static str, i64)> {
    let options = [
        ("securebits", libc::PR_GET_SECUREBITS),
        ("timer slack", libc::PR_GET_TIMERSLACK),
        ("memory-deny-write-execute", libc::PR_GET_MDWE),
    ];
    let options = options.map(|(name, option)| {
        // SAFETY: these options take no pointer, and want zeros for the other arguments.
        let value = unsafe { libc::prctl(option, NONE, NONE, NONE, NONE) };
        (name, i64::from(value))
    });
    // SAFETY: the call takes numbers only.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
    options.into_iter().chain([("I/O priority", priority)])
}

/// Changes that of the calling thread.
#[cfg(test)]
pub(crate) fn set_io_priority(priority: libc::c_int) -> std::io::Result<()> {
    // SAFETY: the call takes numbers only.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) };
    Ok(nix::errno::Errno::result(set).map(drop)?)
}
