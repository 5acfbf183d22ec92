//! What the tests ask of the system, and the standard library does not.

use std::fs::File;
use std::os::windows::io::AsRawHandle;
use std::process::Child;
use std::ptr;

use windows_sys::Win32::System::JobObjects::{AssignProcessToJobObject, CreateJobObjectW};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount};

/// A number that grows with each handle that this process has open and does not close: how many there
/// are; or, under wine, which does not count them, the lowest that is free.
pub(crate) fn handles() -> u32 {
    let mut count = 0;
    // SAFETY: no pointers.
    let this = unsafe { GetCurrentProcess() };
    // SAFETY: the handle means this process, and there is room for the answer.
    assert_ne!(unsafe { GetProcessHandleCount(this, &mut count) }, 0);
    match count {
        0 => File::open("NUL").unwrap().as_raw_handle().addr() as u32 / 4,
        count => count,
    }
}

/// Puts a child into a job of its own, which is inside of the one that this process is in.
pub(crate) fn put_into_a_job(child: &Child) -> bool {
    // SAFETY: neither attributes nor a name are given.
    let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
    // SAFETY: both handles are open. The job stays so for the life of this process.
    unsafe { AssignProcessToJobObject(job, child.as_raw_handle()) != 0 }
}
