//! The process that started this one.

use std::io;
use std::mem::size_of;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
};

use super::check;
use super::process::Process;

#[derive(Debug)]
pub enum Parent {
    /// Held: its end can be waited for.
    Held(Process),
    /// It has ended, and its pid may be reused.
    Gone,
    /// There is none, or it may not be watched.
    Unknown,
}

impl Parent {
    /// Looks for it. A process keeps the pid of a parent that has ended: the parent is older than
    /// this process.
    pub fn hold() -> Self {
        const RIGHTS: u32 = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;
        let number = match number() {
            Ok(Some(number)) if number != 0 => number,
            _ => return Self::Unknown,
        };
        match Process::open(number, RIGHTS) {
            Ok(parent) => match (parent.start_time(), Process::own_start_time()) {
                (Some(parent), Some(own)) if parent > own => Self::Gone,
                _ => Self::Held(parent),
            },
            Err(error) if error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed()) => {
                Self::Gone
            }
            Err(_) => Self::Unknown,
        }
    }
}

fn number() -> io::Result<Option<u32>> {
    // SAFETY: no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made, for us alone.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    // SAFETY: the handle is open, and the entry contains its own size.
    check(unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut entry) })?;
    loop {
        if entry.th32ProcessID == std::process::id() {
            return Ok(Some(entry.th32ParentProcessID));
        }
        // SAFETY: as above.
        if check(unsafe { Process32NextW(snapshot.as_raw_handle(), &mut entry) }).is_err() {
            return Ok(None);
        }
    }
}
