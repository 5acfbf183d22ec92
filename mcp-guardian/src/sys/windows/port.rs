//! The one thread that waits for empty jobs and ended processes, on a completion port without a
//! timeout. Jobs write to it; for an ended process, the system's own waiting threads do.

use std::collections::HashMap;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatus, PostQueuedCompletionStatus,
};
use windows_sys::Win32::System::SystemServices::JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO;
use windows_sys::Win32::System::Threading::INFINITE;

use super::job::Job;
use super::shielded;

/// Called on the thread of the port. It must not block.
type Callback = Arc<dyn Fn() + Send + Sync>;

struct Port {
    handle: OwnedHandle,
    callbacks: Mutex<HashMap<usize, Callback>>,
    /// Never reused: a late message finds no callback.
    next_key: AtomicUsize,
}

#[derive(Debug)]
pub struct Heard {
    key: usize,
}

/// The message of the system's waiting threads; no message of a job has this number.
const ENDED: u32 = u32::MAX;

impl Heard {
    /// Has `callback` called when `job` is empty, and when a process waited for with it has ended.
    pub fn of(job: &Job, callback: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let port = Port::get()?;
        let key = port.next_key.fetch_add(1, Ordering::Relaxed);
        port.lock().insert(key, Arc::new(callback));
        let heard = Self { key };
        job.report_to(port.handle.as_raw_handle(), key)?;
        Ok(heard)
    }

    pub(super) fn key(&self) -> usize {
        self.key
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Ok(port) = Port::get() {
            let callback = port.lock().remove(&self.key);
            drop(callback);
        }
    }
}

/// Reports the end of a process with this key. Runs on a thread of the system.
pub(super) fn ended(key: usize) {
    let Ok(port) = Port::get() else { return };
    // SAFETY: the port is open, and what is written holds no pointer.
    let _ =
        unsafe { PostQueuedCompletionStatus(port.handle.as_raw_handle(), ENDED, key, ptr::null()) };
}

impl Port {
    /// Returns the port of this process, which is shared only once its thread runs.
    fn get() -> io::Result<&'static Self> {
        static PORT: OnceLock<Arc<Port>> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(port) = PORT.get() {
            return Ok(port);
        }
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = PORT.get() {
            return Ok(port);
        }
        // SAFETY: no file is given, so that only a port is made.
        let handle = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, ptr::null_mut(), 0, 1) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        let port = Arc::new(Self {
            // SAFETY: the handle was just made, for us alone.
            handle: unsafe { OwnedHandle::from_raw_handle(handle) },
            callbacks: Mutex::default(),
            next_key: AtomicUsize::new(1),
        });
        let run = Arc::clone(&port);
        let thread = thread::Builder::new().name("mcp-lifecycle-watch".to_owned());
        thread.spawn(move || run.run())?;
        Ok(PORT.get_or_init(|| port))
    }

    fn run(&self) {
        loop {
            match next(self.handle.as_raw_handle()) {
                Ok(Some(key)) => self.tell(key),
                Ok(None) => {}
                Err(error) => {
                    // Other code in this process has closed the port.
                    shielded(|| tracing::error!(%error, "the watcher of servers cannot go on"));
                    return;
                }
            }
        }
    }

    fn tell(&self, key: usize) {
        let callback = self.lock().get(&key).cloned();
        if let Some(callback) = callback {
            shielded(|| callback());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Callback>> {
        self.callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the next message; `None` for one that does not matter here.
fn next(port: HANDLE) -> io::Result<Option<usize>> {
    let (mut message, mut key, mut with) = (0, 0, ptr::null_mut());
    // SAFETY: the port is open, and there is room for the three answers. The pointer is not
    // followed: a job writes a number of a process in its place.
    let answer =
        unsafe { GetQueuedCompletionStatus(port, &mut message, &mut key, &mut with, INFINITE) };
    super::check(answer)?;
    Ok(matches!(message, ENDED | JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO).then_some(key))
}
