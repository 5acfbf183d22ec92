//! The facts that macOS tells about processes (libproc, sysctl(3)). Unmeasured: compiled,
//! and run on no machine of ours.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};

use super::super::{Member, Pid};

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
        let name = info.pbi_comm.map(|byte| byte.cast_unsigned());
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Some(Member {
            pid,
            name: name.to_string_lossy().into_owned(),
        })
    };
    Ok(pids.into_iter().filter_map(member).collect())
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
