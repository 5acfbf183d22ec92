//! Who is to stay, told from what /proc says; and how they leave the cgroup.

use crate::keep::{COMMAND_MAX, PATTERNS_MAX, is_meant};
use crate::procfs::{self, Path};
use crate::protocol::CGROUP_DIR_FD;
use crate::stat::Stat;
use crate::sys::{self, Errno};

/// Bytes of a process's cgroups that are looked at: some twelve hierarchies.
const CGROUPS_MAX: usize = 4096;

/// The patterns, as a copy: the arguments are released.
pub(crate) struct Staying {
    patterns: [u8; PATTERNS_MAX],
    len: usize,
}

impl Staying {
    pub(crate) const NOBODY: Self = Self {
        patterns: [0; PATTERNS_MAX],
        len: 0,
    };

    pub(crate) fn new(text: &[u8]) -> Self {
        let mut staying = Self::NOBODY;
        // The host lets no longer ones pass.
        let text = text.get(..text.len().min(PATTERNS_MAX)).unwrap_or_default();
        staying.patterns.iter_mut().zip(text).for_each(|(to, &from)| *to = from);
        staying.len = text.len();
        staying
    }

    /// Whether anybody may stay.
    pub(crate) fn is_possible(&self) -> bool {
        self.len > 0
    }

    pub(crate) fn has(&self, pid: u32, stat: &Stat) -> bool {
        if !self.is_possible() {
            return false;
        }
        let mut command = [0; COMMAND_MAX];
        let file = Path::new("/proc/").number(pid).then("/cmdline").open();
        let len = file.and_then(|file| sys::read(&file, &mut command)).unwrap_or(0);
        let patterns = self.patterns.get(..self.len).unwrap_or_default();
        is_meant(patterns, &stat.comm, command.get(..len).unwrap_or_default())
    }
}

/// Whether a process is in the cgroup of this name, or in one inside of it.
pub(crate) fn is_inside(pid: u32, cgroup: &[u8]) -> bool {
    let mut text = [0; CGROUPS_MAX];
    let file = Path::new("/proc/").number(pid).then("/cgroup").open();
    let len = file.and_then(|file| sys::read(&file, &mut text)).unwrap_or(0);
    let text = text.get(..len).unwrap_or_default();
    let mut parts = text.split(|&byte| matches!(byte, b'/' | b'\n'));
    !cgroup.is_empty() && parts.any(|part| part == cgroup)
}

/// Puts a process into the cgroup that the server's is in. `Ok` also for one that has gone.
pub(crate) fn put_beside(pid: u32) -> sys::Result<()> {
    let path = Path::new("/proc/self/fd/")
        .number(CGROUP_DIR_FD.cast_unsigned())
        .then("/cgroup.procs");
    let procs = path.open_to_write()?;
    let number = procfs::Path::new("").number(pid);
    match sys::write(&procs, number.text()) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno),
    }
}
