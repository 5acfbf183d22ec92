//! Two reserved descriptors, for ending a server when the host has used up all others.
//!
//! Writing to a cgroup takes one for a moment; killing a process takes two, because it is held and
//! then looked at. Another thread of the host may still take the freed numbers.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

static RESERVE: Mutex<[Option<File>; 2]> = Mutex::new([None, None]);

/// Refills the reserve.
pub fn keep() {
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    for kept in reserve.iter_mut().filter(|kept| kept.is_none()) {
        *kept = File::open("/dev/null").ok();
    }
}

/// Runs `action`, and repeats it with the reserve if it fails for want of a descriptor.
pub fn with<T>(mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
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
