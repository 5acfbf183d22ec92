//! The request to end: CTRL_BREAK, which a console sends to the processes that share it.
//!
//! A server is a process group of its own in the host's console, which Ctrl-C does not reach. Where
//! the host has none, a server gets an invisible one, to which the host attaches for the request. A
//! server that has left its console, or has a window instead, receives nothing. A console is a
//! program, and may never answer.

use std::io;
use std::sync::{OnceLock, PoisonError, RwLock};

use windows_sys::Win32::System::Console::{
    AttachConsole, CTRL_BREAK_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    FreeConsole, GenerateConsoleCtrlEvent, GetConsoleCP, SetConsoleCtrlHandler,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, PROCESS_CREATION_FLAGS,
};
use windows_sys::core::BOOL;

/// Locked for writing while this process, which has no console, is attached to a foreign one.
static ENTERED: RwLock<()> = RwLock::new(());

pub(super) fn flags() -> PROCESS_CREATION_FLAGS {
    // Does not wait: a thread that is attached to a foreign console may never return.
    let has_console = match ENTERED.try_read() {
        Ok(_outside) => has_console(),
        Err(_) => false,
    };
    match has_console {
        true => CREATE_NEW_PROCESS_GROUP,
        false => CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW,
    }
}

/// Asks the process group of this process, which the caller must hold, to end. May never return.
pub(super) fn interrupt(pid: u32) -> io::Result<()> {
    let is_shared = {
        let _outside = ENTERED.read().unwrap_or_else(PoisonError::into_inner);
        has_console()
    };
    if is_shared {
        return send(pid);
    }
    let _inside = ENTERED.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no pointers.
    super::check(unsafe { AttachConsole(pid) })?;
    let sent = send(pid);
    // SAFETY: no pointers. The console is the one that was entered.
    let _ = unsafe { FreeConsole() };
    sent
}

fn send(group: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    super::check(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) })
}

/// Has `tell` called, on its own thread, each time that the console asks this process to end. Once
/// in a process. A console that is closed leaves it some seconds.
pub fn when_asked(tell: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    if TELL.set(Box::new(tell)).is_err() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // SAFETY: the callback follows no pointer.
    super::check(unsafe { SetConsoleCtrlHandler(Some(asked), 1) })
}

static TELL: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

unsafe extern "system" fn asked(kind: u32) -> BOOL {
    if let Some(tell) = TELL.get() {
        super::shielded(tell);
    }
    if matches!(
        kind,
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT
    ) {
        // Returning would end this process before its time.
        loop {
            std::thread::park();
        }
    }
    1
}

fn has_console() -> bool {
    // SAFETY: no pointers. Without a console there is no code page of its input.
    unsafe { GetConsoleCP() != 0 }
}
