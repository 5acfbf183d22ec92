//! A static that is handed out once.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Storage too big for the stack: a large stack frame is touched page by page, zeroed static memory only where it is used.
pub(crate) struct Once<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `take` gives out at most one reference, so the value is never shared.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, the first time.
    #[expect(clippy::mut_from_ref, reason = "at most once")]
    pub(crate) fn take(&'static self) -> Option<&'static mut T> {
        if self.taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: nobody else gets here, so the reference is the only one for ever.
        Some(unsafe { &mut *self.value.get() })
    }
}
