//! One descriptor that is kept for an end that needs one when there is none.
//!
//! A host that has used up its descriptors must still be able to end a server:
//! writing to a cgroup takes one for a moment. It is not a guarantee: another
//! thread of the host may take the number in that moment.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

static RESERVE: Mutex<Option<File>> = Mutex::new(None);

/// Puts one aside, if there is none.
pub(crate) fn keep() {
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    if reserve.is_none() {
        *reserve = File::open("/dev/null").ok();
    }
}

/// Does `action`, and once more with the reserve if it fails for want of a
/// descriptor.
pub(crate) fn with<T>(mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let result = action();
    let Err(error) = &result else { return result };
    if !matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
        return result;
    }
    let taken = RESERVE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if taken.is_none() {
        return result;
    }
    drop(taken);
    let again = action();
    keep();
    again
}
