//! A static that is handed out once.

use core::cell::{Cell, UnsafeCell};

/// Storage too big for the stack: a large stack frame is touched page by page, zeroed static memory only where it is used.
pub(crate) struct Once<T> {
    // Not an atomic: on some architectures those call into a runtime that asks libc what the processor can do.
    taken: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the program has one thread, and nothing that could start another.
unsafe impl<T> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            taken: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, the first time.
    #[expect(clippy::mut_from_ref, reason = "at most once")]
    pub(crate) fn take(&'static self) -> Option<&'static mut T> {
        if self.taken.replace(true) {
            return None;
        }
        // SAFETY: nobody else gets here, so the reference is the only one for ever.
        Some(unsafe { &mut *self.value.get() })
    }
}
