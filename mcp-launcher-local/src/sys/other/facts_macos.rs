//! The facts that macOS tells about processes (libproc, sysctl(3)). Unmeasured: compiled,
//! and run on no machine of ours.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};

use super::super::{Member, Pid};
use crate::lineage::{Listing, Witness, witness as witness_of};

/// When a process started, in microseconds of the wall clock.
pub(super) fn start_time_of(pid: u32) -> Option<u64> {
    info(pid).map(|info| info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec)
}

/// Which boot of the machine this is.
pub(super) fn boot_id() -> Option<String> {
    const NAME: &CStr = c"kern.bootsessionuuid";
    let mut text = [0u8; 64];
    let mut len = text.len();
    // SAFETY: the name ends in NUL; `text` has `len` bytes to write to, and the
    // kernel changes `len` to what it wrote; nothing is set.
    let result = unsafe {
        libc::sysctlbyname(
            NAME.as_ptr(),
            text.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    nix::errno::Errno::result(result).ok()?;
    let text = CStr::from_bytes_until_nul(text.get(..len)?).ok()?;
    Some(text.to_str().ok()?.to_ascii_lowercase())
}

/// The live members of a process group; zombies do not count.
pub(super) fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut pids = vec![0 as c_int; 256];
    loop {
        let bytes = c_int::try_from(pids.len() * size_of::<c_int>()).unwrap_or(c_int::MAX);
        // SAFETY: `pids` has `bytes` bytes to write to.
        let written = unsafe {
            libc::proc_listpgrppids(group.raw().as_raw(), pids.as_mut_ptr().cast(), bytes)
        };
        let count = usize::try_from(nix::errno::Errno::result(written)?).unwrap_or(0);
        // A number of pids, not of bytes; as many as fit means there may be more.
        if count < pids.len() {
            pids.truncate(count);
            break;
        }
        pids.resize(pids.len() * 2, 0);
    }
    let member = |pid: c_int| {
        let pid = Pid::new(pid.into())?;
        let info = info(pid.as_u32()).filter(|info| info.pbi_status != libc::SZOMB)?;
        Some(Member {
            pid,
            name: name_of(&info),
        })
    };
    Ok(pids.into_iter().filter_map(member).collect())
}

/// Everybody who is there, with zombies.
pub(super) fn everybody() -> io::Result<Listing> {
    let mut pids = vec![0 as c_int; 4096];
    loop {
        let bytes = c_int::try_from(pids.len() * size_of::<c_int>()).unwrap_or(c_int::MAX);
        // SAFETY: `pids` has `bytes` bytes to write to.
        let written = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
        let count = usize::try_from(nix::errno::Errno::result(written)?).unwrap_or(0);
        if count == 0 {
            // At least this process is there.
            return Err(io::Error::last_os_error());
        }
        // A number of pids, not of bytes; as many as fit means there may be more.
        if count < pids.len() || pids.len() >= 1 << 20 {
            let is_whole = count < pids.len();
            pids.truncate(count);
            let pids = pids
                .into_iter()
                .filter_map(|pid| Pid::new(pid.into()))
                .collect();
            return Ok(Listing { pids, is_whole });
        }
        pids.resize(pids.len() * 2, 0);
    }
}

/// The mark of whoever has this number, as far as it can be read.
pub(super) fn witness(pid: Pid, variable: &str) -> Witness {
    match arguments_of(pid, &mut Vec::new()) {
        Ok(told) => witness_of(told, variable),
        Err(_) => Witness::Hidden,
    }
}

/// As much as arguments and environment may take together on macOS.
const ARGUMENTS_MAX: usize = 1 << 20;

/// The arguments and the environment of whoever has this number (`KERN_PROCARGS2`).
pub(super) fn arguments_of(pid: Pid, told: &mut Vec<u8>) -> io::Result<&[u8]> {
    let mut what = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid.raw().as_raw()];
    told.resize(ARGUMENTS_MAX, 0);
    let mut len = told.len();
    // SAFETY: `what` has three numbers; `told` has `len` bytes to write to, and the kernel changes `len` to what it
    // wrote; nothing is set.
    let result = unsafe {
        libc::sysctl(
            what.as_mut_ptr(),
            3,
            told.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    nix::errno::Errno::result(result)?;
    // Where it is full, its beginning may have been left out.
    told.get(..len)
        .filter(|told| told.len() < ARGUMENTS_MAX)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A process with its name, which is empty if it has ended.
pub(super) fn member(pid: Pid) -> Member {
    let name = info(pid.as_u32()).map(|info| name_of(&info));
    Member {
        pid,
        name: name.unwrap_or_default(),
    }
}

fn name_of(info: &libc::proc_bsdinfo) -> String {
    let name = info.pbi_comm.map(|byte| byte.cast_unsigned());
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn info(pid: u32) -> Option<libc::proc_bsdinfo> {
    let pid = c_int::try_from(pid).ok()?;
    let size = c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::uninit();
    // SAFETY: `info` has `size` bytes to write to.
    let written = unsafe {
        libc::proc_pidinfo(
            pid,
            libc::PROC_PIDTBSDINFO,
            0,
            info.as_mut_ptr().cast::<c_void>(),
            size,
        )
    };
    if written != size {
        return None;
    }
    // SAFETY: the kernel has written all of it, and any bytes are valid for it.
    Some(unsafe { info.assume_init() })
}
