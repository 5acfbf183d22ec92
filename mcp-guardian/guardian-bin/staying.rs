//! Processes that outlive the server: found in /proc, and moved out of the cgroup.

use core::ffi::CStr;

use crate::keep::{COMMAND_MAX, is_meant};
use crate::procfs::{self, Path};
use crate::protocol::CGROUP_LEAF_FD;
use crate::stat::Stat;
use crate::sys::{self, Errno};

/// Compared bytes of a process's cgroups: some twelve hierarchies.
const CGROUPS_MAX: usize = 4096;

#[derive(Clone, Copy)]
pub(crate) struct Staying(&'static [u8]);

impl Staying {
    pub(crate) fn new(patterns: &'static CStr) -> Self {
        Self(patterns.to_bytes())
    }

    pub(crate) fn is_possible(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn has(&self, pid: u32, stat: &Stat) -> bool {
        if !self.is_possible() {
            return false;
        }
        let mut command = [0; COMMAND_MAX];
        let file = procfs::open(Path::new().number(pid.into()).then("/cmdline"));
        let len = file.and_then(|file| sys::read(&file, &mut command)).unwrap_or(0);
        is_meant(self.0, &stat.comm, command.get(..len).unwrap_or_default())
    }
}

pub(crate) fn is_inside(pid: u32, cgroup: &[u8]) -> bool {
    let mut text = [0; CGROUPS_MAX];
    let file = procfs::open(Path::new().number(pid.into()).then("/cgroup"));
    let len = file.and_then(|file| sys::read(&file, &mut text)).unwrap_or(0);
    let text = text.get(..len).unwrap_or_default();
    let mut parts = text.split(|&byte| matches!(byte, b'/' | b'\n'));
    !cgroup.is_empty() && parts.any(|part| part == cgroup)
}

/// Moves a process to the parent of the server's cgroup. `Ok` if it is gone, too.
pub(crate) fn put_beside(pid: u32) -> sys::Result<()> {
    let mut path = Path::new();
    path.then("/proc/self/fd/").number(CGROUP_LEAF_FD.unsigned_abs().into()).then("/../cgroup.procs");
    let procs = sys::open_to_write(path.c_str())?;
    match sys::write(&procs, Path::new().number(pid.into()).bytes()) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno),
    }
}
