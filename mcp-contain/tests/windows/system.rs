//! Wrappers that live and their consoles, asked of the system, and threads that are suspended.

use std::mem::size_of;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
    TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{
    OpenThread, ResumeThread, SuspendThread, THREAD_SUSPEND_RESUME,
};

/// The numbers of the processes that run this program. Other tests run none at the same time.
pub(crate) fn wrappers() -> Vec<u32> {
    processes(|entry| is_named(entry, "mcp-contain.exe"))
}

/// The program that is the console of a process which was started in one of its own.
pub(crate) fn console_of(process: u32) -> u32 {
    let consoles =
        processes(|entry| is_named(entry, "conhost.exe") && entry.th32ParentProcessID == process);
    assert_eq!(consoles.len(), 1, "{consoles:?}");
    consoles[0]
}

/// Lets the threads of a process run that are suspended, and returns how many were.
pub(crate) fn resume(process: u32) -> usize {
    // SAFETY: the handle is open. The answer is how often it was suspended.
    let before = threads(process, |thread| unsafe {
        ResumeThread(thread.as_raw_handle())
    });
    let resumed = before.iter().filter(|&&before| before != 0);
    resumed.filter(|&&before| before != u32::MAX).count()
}

/// Suspends all threads of a process.
pub(crate) fn suspend(process: u32) {
    // SAFETY: the handle is open.
    let before = threads(process, |thread| unsafe {
        SuspendThread(thread.as_raw_handle())
    });
    assert!(!before.is_empty() && !before.contains(&u32::MAX));
}

fn is_named(entry: &PROCESSENTRY32W, program: &str) -> bool {
    let name = entry.szExeFile.split(|unit| *unit == 0).next().unwrap();
    String::from_utf16_lossy(name).eq_ignore_ascii_case(program)
}

/// The numbers of those that are asked for.
fn processes(is_asked_for: impl Fn(&PROCESSENTRY32W) -> bool) -> Vec<u32> {
    let snapshot = snapshot(TH32CS_SNAPPROCESS);
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    let mut found = Vec::new();
    // SAFETY: the handle is open, and the entry says its own size.
    let mut more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut entry) };
    while more != 0 {
        if is_asked_for(&entry) {
            found.push(entry.th32ProcessID);
        }
        // SAFETY: as above.
        more = unsafe { Process32NextW(snapshot.as_raw_handle(), &mut entry) };
    }
    found
}

/// Calls `act` with each thread of a process, and returns the answers.
fn threads(process: u32, act: impl Fn(OwnedHandle) -> u32) -> Vec<u32> {
    let snapshot = snapshot(TH32CS_SNAPTHREAD);
    let mut entry = THREADENTRY32 {
        dwSize: size_of::<THREADENTRY32>() as u32,
        ..THREADENTRY32::default()
    };
    let mut answers = Vec::new();
    // SAFETY: the handle is open, and the entry says its own size.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &mut entry) };
    while more != 0 {
        if entry.th32OwnerProcessID == process {
            // SAFETY: no pointers.
            let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) };
            if !thread.is_null() {
                // SAFETY: the handle was just made, and nobody else owns it.
                answers.push(act(unsafe { OwnedHandle::from_raw_handle(thread) }));
            }
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &mut entry) };
    }
    answers
}

fn snapshot(of: u32) -> OwnedHandle {
    // SAFETY: no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(of, 0) };
    // SAFETY: the handle was just made, and nobody else owns it.
    unsafe { OwnedHandle::from_raw_handle(snapshot) }
}
