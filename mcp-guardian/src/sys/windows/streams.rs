//! The standard streams of this process, to be handed to another one.

use std::fs::OpenOptions;
use std::io::{self, stderr, stdin};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{
    ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_OUTPUT_HANDLE, SetStdHandle};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

use super::check;

/// The standard input of this process, which reads nothing from it.
#[derive(Debug)]
pub struct Input {
    handle: OwnedHandle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputState {
    Open,
    /// All writers have closed it, and all was read.
    Ended,
    /// A file, or a console: its end is not reported.
    Unknown,
}

/// Returns standard input, output and error for another process. This process gives up the output.
/// A missing stream becomes the null device.
pub fn hand_over() -> io::Result<[OwnedHandle; 3]> {
    let input = clone_of(&stdin())?;
    let error = clone_of(&stderr())?;
    Ok([input, take_output()?, error])
}

pub fn input() -> io::Result<Input> {
    clone_of(&stdin()).map(|handle| Input { handle })
}

impl Input {
    /// Queries the state. Waits while the other process reads, because a handle does one thing at a
    /// time.
    pub fn state(&self) -> InputState {
        let none = ptr::null_mut();
        // SAFETY: the handle is open, and no answer is asked for but whether there is one.
        let looked = check(unsafe {
            PeekNamedPipe(
                self.handle.as_raw_handle(),
                none,
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        });
        match looked.map_err(|error| error.raw_os_error().unwrap_or(0).cast_unsigned()) {
            Ok(()) => InputState::Open,
            Err(ERROR_BROKEN_PIPE | ERROR_NO_DATA | ERROR_PIPE_NOT_CONNECTED) => InputState::Ended,
            Err(_) => InputState::Unknown,
        }
    }
}

fn clone_of(stream: &impl AsHandle) -> io::Result<OwnedHandle> {
    let handle = stream.as_handle();
    match is_none(handle.as_raw_handle()) {
        true => null(),
        false => handle.try_clone_to_owned(),
    }
}

fn take_output() -> io::Result<OwnedHandle> {
    // SAFETY: no pointers.
    let handle = unsafe { GetStdHandle(STD_OUTPUT_HANDLE) };
    if is_none(handle) {
        return null();
    }
    // SAFETY: no pointers. The standard library does not return the old handle from now on.
    check(unsafe { SetStdHandle(STD_OUTPUT_HANDLE, ptr::null_mut()) })?;
    // SAFETY: it is open, and its former slot is empty now. The standard library reads the slot
    // each time.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn is_none(handle: *mut std::ffi::c_void) -> bool {
    handle.is_null() || handle == INVALID_HANDLE_VALUE
}

fn null() -> io::Result<OwnedHandle> {
    let file = OpenOptions::new().read(true).write(true).open("NUL")?;
    Ok(file.into())
}
