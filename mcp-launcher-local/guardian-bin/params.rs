//! What the host passed: parameters in argv, descriptors by agreed numbers.

use core::ffi::CStr;

use crate::protocol::{
    CGROUP_DIR_FD, CGROUP_KILL_FD, CGROUP_LEAF_FD, CGROUP_PROCS_FD, COMPANION_FD, FLAG_CGROUP_DIR, FLAG_CGROUP_KILL,
    FLAG_CGROUP_LEAF, FLAG_CGROUP_PROCS, FLAG_COMPANION, FLAG_LEDGER, FLAG_MEMORY, FLAG_ORPHAN, FLAG_OWN_VARIABLE, FLAG_PID_NAMESPACE, FLAG_RING, FLAG_SPARE,
    LEDGER_DIR_FD, LEDGER_FD, PARAM_COUNT, RING_FD,
};
use crate::sys::{self, Args, Fd, Nanos};

pub(crate) struct Params<'a> {
    pub(crate) host: u32,
    /// The time that a tree has to end by itself once its host is gone.
    pub(crate) grace: Nanos,
    /// Where the server starts; `None` for where the host is.
    pub(crate) cwd: Option<&'a CStr>,
    /// The directory that `cwd` is relative to, and that the server starts in without one; `None` for where the guardian is.
    pub(crate) directory: Option<Fd>,
    pub(crate) program: &'a CStr,
    /// The number of the server's first argument.
    pub(crate) first: usize,
    /// Whether the server gets a PID namespace.
    pub(crate) pid_namespace: bool,
    /// Whether there is no server, and an orphan is to say who adopts it.
    pub(crate) orphan: bool,
    /// Whether the server is still to be named.
    pub(crate) spare: bool,
    /// The cgroup that the server is born in, or joins by `cgroup_procs`.
    pub(crate) cgroup_leaf: Option<Fd>,
    pub(crate) cgroup_procs: Option<Fd>,
    pub(crate) cgroup_kill: Option<Fd>,
    /// The cgroup to remove at the end: its directory and its name.
    pub(crate) cgroup_dir: Option<Fd>,
    pub(crate) cgroup_name: &'a CStr,
    /// That has a limit of memory.
    pub(crate) has_memory_limit: bool,
    /// The ledger to remove at the end: the file, its directory and its name.
    pub(crate) ledger: Option<Fd>,
    pub(crate) ledger_dir: Option<Fd>,
    pub(crate) ledger_name: &'a CStr,
    /// The ring of what ended, at this server's record.
    pub(crate) ring: Option<Fd>,
    /// Who is to stay.
    pub(crate) keep: &'a CStr,
    /// The socket to the companion.
    pub(crate) companion: Option<Fd>,
}

impl<'a> Params<'a> {
    /// Reads argv and takes the descriptors over. `None` if argv is not what the host side of this crate writes.
    pub(crate) fn take(args: &'a Args) -> Option<Self> {
        let host = number(args.get(1)?)?;
        let flags = number(args.get(2)?)?;
        let grace = u64::from(number(args.get(3)?)?);
        let cwd = args.get(6)?;
        let program = args.get(7)?;
        let keep = args.get(8)?;
        if flags & FLAG_SPARE == 0 {
            args.get(PARAM_COUNT)?;
        }
        if flags & FLAG_OWN_VARIABLE != 0 {
            sys::keep_last_variable(args);
        }
        // Descriptors that were not passed are closed rather than kept: they are the host's.
        let taken = |flag, fd| sys::inherited(fd).filter(|_| flags & flag != 0);
        Some(Self {
            host,
            grace: Nanos(grace.saturating_mul(1_000_000)),
            cwd: (!cwd.is_empty()).then_some(cwd),
            directory: None,
            program,
            keep,
            first: PARAM_COUNT,
            pid_namespace: flags & FLAG_PID_NAMESPACE != 0,
            orphan: flags & FLAG_ORPHAN != 0,
            spare: flags & FLAG_SPARE != 0,
            cgroup_leaf: taken(FLAG_CGROUP_LEAF, CGROUP_LEAF_FD),
            cgroup_procs: taken(FLAG_CGROUP_PROCS, CGROUP_PROCS_FD),
            cgroup_kill: taken(FLAG_CGROUP_KILL, CGROUP_KILL_FD),
            cgroup_dir: taken(FLAG_CGROUP_DIR, CGROUP_DIR_FD),
            cgroup_name: args.get(4)?,
            has_memory_limit: flags & FLAG_MEMORY != 0,
            ledger: taken(FLAG_LEDGER, LEDGER_FD),
            ledger_dir: taken(FLAG_LEDGER, LEDGER_DIR_FD),
            ledger_name: args.get(5)?,
            ring: taken(FLAG_RING, RING_FD),
            companion: taken(FLAG_COMPANION, COMPANION_FD),
        })
    }
}

pub(crate) fn number(text: &CStr) -> Option<u32> {
    let digits = text.to_bytes();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, &digit| {
        let digit = digit.is_ascii_digit().then_some(u32::from(digit & 0xf))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
