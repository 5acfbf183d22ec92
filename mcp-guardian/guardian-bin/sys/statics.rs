//! Statics of a program with one thread.

use core::cell::{Cell, OnceCell, UnsafeCell};

use super::Fd;

/// The standard streams, which are never closed by a drop.
pub(crate) static STDIN: Fd = Fd(0);
pub(crate) static STDOUT: Fd = Fd(1);
pub(crate) static STDERR: Fd = Fd(2);

/// Storage that is too big for the stack: zeroed static memory is only touched where it is used.
pub(crate) struct Once<T> {
    // Not an atomic: on some architectures those call a runtime that asks libc for the processor's
    // features.
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

    /// Returns the value, the first time.
    #[expect(clippy::mut_from_ref, reason = "at most once")]
    pub(crate) fn take(&'static self) -> Option<&'static mut T> {
        if self.taken.replace(true) {
            return None;
        }
        // SAFETY: only one call gets here, so the reference is unique for ever.
        Some(unsafe { &mut *self.value.get() })
    }
}

pub(crate) struct Filled<T>(pub(crate) OnceCell<T>);

// SAFETY: as for `Once`.
unsafe impl<T> Sync for Filled<T> {}
