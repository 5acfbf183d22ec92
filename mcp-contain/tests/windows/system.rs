//! Wrappers that live, asked of the system, and those that their hosts have left suspended.

use std::mem::size_of;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
    TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{OpenThread, ResumeThread, THREAD_SUSPEND_RESUME};

/// The numbers of the processes that run this program. Other tests run none at the same time.
pub(crate) fn wrappers() -> Vec<u32> {
    let snapshot = snapshot(TH32CS_SNAPPROCESS);
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    let mut found = Vec::new();
    // SAFETY: the handle is open, and the entry says its own size.
    let mut more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut entry) };
    while more != 0 {
        let name = entry.szExeFile.split(|unit| *unit == 0).next().unwrap();
        if String::from_utf16_lossy(name).eq_ignore_ascii_case("mcp-contain.exe") {
            found.push(entry.th32ProcessID);
        }
        // SAFETY: as above.
        more = unsafe { Process32NextW(snapshot.as_raw_handle(), &mut entry) };
    }
    found
}

/// Lets the threads of a process run that are suspended, and returns how many were.
pub(crate) fn resume(process: u32) -> usize {
    let snapshot = snapshot(TH32CS_SNAPTHREAD);
    let mut entry = THREADENTRY32 {
        dwSize: size_of::<THREADENTRY32>() as u32,
        ..THREADENTRY32::default()
    };
    let mut resumed = 0;
    // SAFETY: the handle is open, and the entry says its own size.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &mut entry) };
    while more != 0 {
        if entry.th32OwnerProcessID == process {
            // SAFETY: no pointers.
            let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) };
            if !thread.is_null() {
                // SAFETY: the handle was just made, and nobody else owns it.
                let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
                // SAFETY: the handle is open. The answer is how often it was suspended.
                let before = unsafe { ResumeThread(thread.as_raw_handle()) };
                resumed += usize::from(before != 0 && before != u32::MAX);
            }
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &mut entry) };
    }
    resumed
}

fn snapshot(of: u32) -> OwnedHandle {
    // SAFETY: no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(of, 0) };
    // SAFETY: the handle was just made, and nobody else owns it.
    unsafe { OwnedHandle::from_raw_handle(snapshot) }
}
