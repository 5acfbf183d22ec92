//! Parameters from the host: in argv, and descriptors by agreed numbers.

use core::ffi::CStr;

use crate::account::Account;
use crate::protocol::{
    CGROUP_KILL_FD, CGROUP_LEAF_FD, CGROUP_PROCS_FD, COMPANION_FD, FLAG_ALONE, FLAG_MEMORY, FLAG_ORPHAN, FLAG_OWN_VARIABLE,
    FLAG_PID_NAMESPACE, GATE_FD, LEDGER_DIR_FD, LEDGER_FD, PARAM_COUNT, PROGRAM_PARAM, REPORT_FD, RING_FD, flag_of,
};
use crate::record::{Record, Slot};
use crate::stat::number;
use crate::sys::{self, Args, Fd};

pub(crate) struct Params {
    pub(crate) host: u32,
    pub(crate) grace: u64,
    pub(crate) cwd: Option<&'static CStr>,
    pub(crate) program: &'static CStr,
    /// The way to a server's process that the host has forked.
    pub(crate) gate: Option<Fd>,
    pub(crate) pid_namespace: bool,
    pub(crate) orphan: bool,
    pub(crate) cgroup_procs: Option<Fd>,
    pub(crate) cgroup_kill: Option<Fd>,
    pub(crate) record: Record,
    pub(crate) keep: &'static CStr,
}

impl Params {
    pub(crate) fn take(args: &Args) -> Option<Self> {
        let text = |index| args.parameter(index);
        let host = small_number(text(1)?)?;
        let flags = small_number(text(2)?)?;
        let grace = u64::from(small_number(text(3)?)?);
        let cwd = text(6)?;
        args.get(PARAM_COUNT)?;
        if flags & FLAG_OWN_VARIABLE != 0 {
            sys::keep_last_variable(args);
        }
        // Descriptors that were not passed belong to the host and are closed.
        let taken = |fd| match flags & flag_of(fd) {
            0 => {
                sys::close(fd);
                None
            }
            _ => sys::inherited(fd),
        };
        Some(Self {
            host,
            grace: grace.saturating_mul(1_000_000),
            cwd: (!cwd.is_empty()).then_some(cwd),
            program: text(PROGRAM_PARAM)?,
            gate: taken(GATE_FD),
            keep: text(8)?,
            pid_namespace: flags & FLAG_PID_NAMESPACE != 0,
            orphan: flags & FLAG_ORPHAN != 0,
            cgroup_procs: taken(CGROUP_PROCS_FD),
            cgroup_kill: taken(CGROUP_KILL_FD),
            record: Record {
                leaf: taken(CGROUP_LEAF_FD),
                path: text(4)?,
                is_alone: flags & FLAG_ALONE != 0,
                has_memory_limit: flags & FLAG_MEMORY != 0,
                _ledger: taken(LEDGER_FD),
                ledger_dir: taken(LEDGER_DIR_FD),
                ledger_name: text(5)?,
                ring: taken(RING_FD).and_then(Slot::new),
                companion: taken(COMPANION_FD),
                account: match taken(REPORT_FD) {
                    Some(to) => Some(Account { to, beginning: text(9)?, log: sys::seek_back(&sys::STDERR, 0).ok() }),
                    None => None,
                },
            },
        })
    }
}

pub(crate) fn small_number(text: &CStr) -> Option<u32> {
    number(text.to_bytes())?.try_into().ok()
}
