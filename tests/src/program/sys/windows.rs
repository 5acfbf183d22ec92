//! Processes, and the request of a console.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{process, thread};

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, SetConsoleCtrlHandler};

/// This process ends after `lifetime`.
pub(crate) fn limit_lifetime(lifetime: Duration) {
    thread::spawn(move || {
        thread::sleep(lifetime);
        process::exit(99)
    });
}

/// No child gets the standard streams, unless it is given them: by itself each would hold all of them.
pub(crate) fn keep_streams() {
    for stream in [
        io::stdin().as_raw_handle(),
        io::stdout().as_raw_handle(),
        io::stderr().as_raw_handle(),
    ] {
        // SAFETY: no pointers. A stream that is closed is refused.
        let _ = unsafe { SetHandleInformation(stream, HANDLE_FLAG_INHERIT, 0) };
    }
}

/// Standard output, without a buffer.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

static OBSERVER: Mutex<Option<Arc<TcpStream>>> = Mutex::new(None);
static IGNORE_REQUEST: AtomicBool = AtomicBool::new(false);

/// Tells the observer of a CTRL_BREAK, which is SIGTERM here, and then dies of it or does not.
pub(crate) fn report_sigterm(ignore: bool) {
    IGNORE_REQUEST.store(ignore, Ordering::SeqCst);
    // SAFETY: what is called follows no pointer.
    let _ = unsafe { SetConsoleCtrlHandler(Some(on_request), 1) };
}

/// Whom [`report_sigterm`] tells.
pub(crate) fn report_sigterm_to(observer: &Arc<TcpStream>) {
    let mut told = OBSERVER.lock().unwrap_or_else(PoisonError::into_inner);
    *told = Some(Arc::clone(observer));
}

/// On a thread of the system's. Where this says 0, the process ends.
unsafe extern "system" fn on_request(kind: u32) -> i32 {
    if kind != CTRL_BREAK_EVENT {
        return 0;
    }
    if let Some(observer) = &*OBSERVER.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = (&**observer).write_all(b"event sigterm\n");
    }
    i32::from(IGNORE_REQUEST.load(Ordering::SeqCst))
}
