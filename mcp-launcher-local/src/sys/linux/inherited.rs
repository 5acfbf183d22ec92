//! Attributes of a thread that a process which it starts inherits, and that `/proc` does not show, or at a higher price.

/// The calling thread, for `ioprio_get` and `ioprio_set`.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

const NONE: libc::c_ulong = 0;

/// What is no personality (personality(2)).
const ASK: libc::c_ulong = 0xffff_ffff;

/// Hands over each, with its name; an attribute that this kernel has not is -1.
pub(crate) fn inherited_by_threads(mut each: impl FnMut(&'static str, &[u8])) {
    let options = [
        ("securebits", libc::PR_GET_SECUREBITS),
        ("timer slack", libc::PR_GET_TIMERSLACK),
        ("memory-deny-write-execute", libc::PR_GET_MDWE),
    ];
    for (name, option) in options {
        // SAFETY: these options take no pointer, and want zeros for the other arguments.
        let value = unsafe { libc::prctl(option, NONE, NONE, NONE, NONE) };
        each(name, &value.to_ne_bytes());
    }
    // SAFETY: the call takes numbers only.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
    each("I/O priority", &priority.to_ne_bytes());
    // SAFETY: the call takes a number, and changes nothing where it is this one.
    let personality = unsafe { libc::personality(ASK) };
    each("personality", &personality.to_ne_bytes());
    // SAFETY: the call takes numbers only. Its -1 is a priority too.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    each("nice value", &nice.to_ne_bytes());
    // Policy, priority, deadlines and bounds, as many as this kernel knows (sched_getattr(2)).
    let mut scheduling = [0_u8; 64];
    let (to, length) = (scheduling.as_mut_ptr(), scheduling.len());
    // SAFETY: the kernel writes at most `length` bytes there.
    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, to, length, 0) };
    each("scheduling", &scheduling);
}

/// Changes that of the calling thread.
#[cfg(test)]
pub(crate) fn set_io_priority(priority: libc::c_int) -> std::io::Result<()> {
    // SAFETY: the call takes numbers only.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) };
    Ok(nix::errno::Errno::result(set).map(drop)?)
}
