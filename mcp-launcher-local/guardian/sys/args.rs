//! What the kernel put on the stack: arguments and environment.

use core::ffi::{CStr, c_char};

use super::{arch, syscall};

/// Where [`_start`](super::arch) continues, with the stack pointer the kernel gave.
pub(crate) extern "C" fn entry(stack: *const usize) -> ! {
    // SAFETY: this is the initial stack pointer, which points at argc.
    let count = unsafe { stack.read() };
    crate::main(Args {
        count,
        vector: stack.wrapping_add(1).cast(),
    })
}

/// Arguments and environment, where the kernel put them. There is one value of this type.
pub(crate) struct Args {
    count: usize,
    vector: *const *const c_char,
}

impl Args {
    pub(crate) fn get(&self, index: usize) -> Option<&CStr> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the vector has `count` entries.
        let text = unsafe { self.vector.wrapping_add(index).read() };
        // SAFETY: the kernel terminates every argument; it lives, unchanged, as long as `self` has not been released.
        Some(unsafe { CStr::from_ptr(text) })
    }

    /// Arguments from `skip` on, and the environment: both null-terminated.
    pub(super) fn vectors(&self, skip: usize) -> (*const *const c_char, *const *const c_char) {
        (
            self.vector.wrapping_add(skip.min(self.count)),
            self.vector.wrapping_add(self.count + 1),
        )
    }

    /// Gives the memory of the strings back, as far as it consists of whole pages.
    ///
    /// An environment can be megabytes, and one guardian exists per server. This also clears what secrets those pages held.
    pub(crate) fn release(self) {
        const MADV_DONTNEED: usize = 4;
        let (argv, mut entry) = self.vectors(0);
        // SAFETY: the first entry of the vector, or its terminator.
        let start = unsafe { argv.read() } as usize;
        let mut last: *const c_char = core::ptr::null();
        loop {
            // SAFETY: the environment is null-terminated, and the loop ends there.
            let text = unsafe { entry.read() };
            if text.is_null() {
                break;
            }
            last = text;
            entry = entry.wrapping_add(1);
        }
        // The strings lie in order, so everything up to the last one's first byte is strings only.
        let (from, to) = (
            start.next_multiple_of(arch::PAGE),
            last as usize & !(arch::PAGE - 1),
        );
        if start != 0 && from < to {
            // SAFETY: whole pages of argument and environment strings, which nothing can reach once `self` is consumed.
            let _ = unsafe {
                syscall(arch::nr::MADVISE, [from, to - from, MADV_DONTNEED, 0, 0, 0])
            };
        }
    }
}
