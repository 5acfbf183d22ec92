//! Two descriptors that are kept for an end that needs some when there is none.
//!
//! A host that has used up its descriptors must still be able to end a server:
//! writing to a cgroup takes one for a moment, and a process that is killed takes two:
//! it is held, and then looked at. It is not a guarantee: another thread of the host
//! may take the numbers in that moment.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

static RESERVE: Mutex<[Option<File>; 2]> = Mutex::new([None, None]);

/// Puts aside what is not there.
pub(crate) fn keep() {
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    for kept in reserve.iter_mut().filter(|kept| kept.is_none()) {
        *kept = File::open("/dev/null").ok();
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
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = std::mem::take(&mut *reserve);
    drop(reserve);
    if taken.iter().all(Option::is_none) {
        return result;
    }
    drop(taken);
    let again = action();
    keep();
    again
}
