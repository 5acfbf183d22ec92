//! Wine, where it is no Windows: it is known by what its `ntdll` has, and its faults are nobody's who is tested.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::atomic::{AtomicUsize, Ordering};

use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::w;

/// Processes that have ended, and whose connections wine has kept.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this is wine.
pub fn is_here() -> bool {
    // SAFETY: the name ends with a zero. Every process has this library.
    let library = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: the library stays, and the name ends with a zero.
    unsafe { GetProcAddress(library, c"wine_get_version".as_ptr().cast()) }.is_some()
}

/// Returns whether the process of this number has ended, and nobody but wine's own server holds its connections,
/// for ever: seen of processes that were killed, under load. Each is counted.
pub fn has_left(pid: u32) -> bool {
    let has_left = is_here() && !is_listed(pid);
    if has_left {
        LEFT.fetch_add(1, Ordering::Relaxed);
        eprintln!("wine: process {pid} has ended, and its connection has not");
    }
    has_left
}

fn is_listed(pid: u32) -> bool {
    // SAFETY: no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    // SAFETY: the handle was just made, and nobody else owns it.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    // SAFETY: the handle is open, and the entry says its own size.
    let mut more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut entry) };
    while more != 0 && entry.th32ProcessID != pid {
        // SAFETY: as above.
        more = unsafe { Process32NextW(snapshot.as_raw_handle(), &mut entry) };
    }
    more != 0
}

/// Prints how often wine was not taken at its word in this process.
pub fn report() {
    let left = LEFT.load(Ordering::Relaxed);
    println!("ended, with a connection that has not: {left}");
}
