//! The arguments and the environment that the kernel put on the stack.

use core::ffi::{CStr, c_char};

unsafe extern "Rust" {
    /// The function that [`start`](crate::start) names.
    fn mcp_start(args: Args) -> !;
}

/// Where [`_start`](super::arch) continues, with the stack pointer the kernel gave.
pub(super) extern "C" fn entry(stack: *const usize) -> ! {
    // SAFETY: this is the initial stack pointer, which points at argc.
    let count = unsafe { stack.read() };
    let args = Args {
        count,
        vector: stack.wrapping_add(1).cast(),
    };
    // SAFETY: the macro defines it as a safe function of this very type.
    unsafe { mcp_start(args) }
}

/// Arguments and environment, where the kernel or another process put them.
pub struct Args {
    count: usize,
    vector: *const *const c_char,
}

impl Args {
    /// Arguments and environment that did not come by the stack.
    ///
    /// # Safety
    ///
    /// `vector` has `count` pointers and a null pointer, then those of the environment and a null
    /// pointer, each to a terminated string. All of it lives, unchanged, as long as the value.
    pub unsafe fn new(count: usize, vector: *const *const c_char) -> Self {
        Self { count, vector }
    }

    /// The argument of this number; the program's name is the first.
    pub fn get(&self, index: usize) -> Option<&CStr> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the vector has `count` entries.
        let text = unsafe { self.vector.wrapping_add(index).read() };
        // SAFETY: the kernel terminates every argument; it lives, unchanged, as long as `self`.
        Some(unsafe { CStr::from_ptr(text) })
    }

    /// Arguments from `skip` on, and the environment: both null-terminated.
    pub fn vectors(&self, skip: usize) -> (*const *const c_char, *const *const c_char) {
        (
            self.vector.wrapping_add(skip.min(self.count)),
            self.vector.wrapping_add(self.count + 1),
        )
    }
}
