//! The arguments and the environment that the kernel put on the stack.

use core::ffi::{CStr, c_char};

use super::arch::{self, nr};
use super::syscall;
use crate::protocol::PARAM_COUNT;

/// Continues [`_start`](super::arch) with the initial stack pointer.
pub(super) extern "C" fn entry(stack: *const usize) -> ! {
    // SAFETY: this is the initial stack pointer, which points at argc.
    let count = unsafe { stack.read() };
    crate::main(Args {
        count,
        vector: stack.wrapping_add(1).cast(),
    })
}

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
        // SAFETY: the kernel terminates every argument; it lives, unchanged, as long as `self`.
        Some(unsafe { CStr::from_ptr(text) })
    }

    /// Returns a parameter of the guardian, which is never released.
    pub(crate) fn parameter(&self, index: usize) -> Option<&'static CStr> {
        let text = self.get(index).filter(|_| index < PARAM_COUNT)?;
        // SAFETY: the strings on the initial stack live as long as the process, and `release` spares this one.
        Some(unsafe { CStr::from_ptr(text.as_ptr()) })
    }

    /// Returns the value of the variable with this name and equals sign.
    pub(crate) fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        self.environment().find_map(|entry| {
            // SAFETY: an entry of the environment, which is not its end.
            let text = unsafe { entry.read() };
            // SAFETY: the kernel terminates every variable; it lives, unchanged, as long as `self`.
            unsafe { CStr::from_ptr(text) }.to_bytes().strip_prefix(name)
        })
    }

    /// Returns the arguments from `skip` on, and the environment.
    pub(super) fn vectors(&self, skip: usize) -> (*const *const c_char, *const *const c_char) {
        (
            self.vector.wrapping_add(skip.min(self.count)),
            self.vector.wrapping_add(self.count + 1),
        )
    }

    fn environment(&self) -> impl Iterator<Item = *const *const c_char> {
        let (_, mut next) = self.vectors(0);
        core::iter::from_fn(move || {
            let entry = next;
            // SAFETY: the environment is null-terminated, and `next` never passes its end.
            let is_end = unsafe { entry.read() }.is_null();
            next = entry.wrapping_add(usize::from(!is_end));
            (!is_end).then_some(entry)
        })
    }
}

/// Hides the last variable from programs executed later; other processes still see it here.
pub(crate) fn keep_last_variable(args: &Args) {
    if let Some(last) = args.environment().last() {
        // SAFETY: an entry of the vector that the kernel put on our stack, which is ours to write;
        // no reference to it exists. It stays null-terminated.
        unsafe { last.cast_mut().write(core::ptr::null()) };
    }
}

/// Frees the whole pages of the server's argument and environment strings, which can be megabytes
/// per guardian and may hold secrets.
pub(crate) fn release(args: Args) {
    let (server, _) = args.vectors(PARAM_COUNT);
    // SAFETY: an entry of the vector, or its terminator.
    let start = unsafe { server.read() } as usize;
    // SAFETY: an entry of the environment.
    let last = args.environment().last().map_or(0, |last| unsafe { last.read() } as usize);
    // The strings are in order, so everything before the last one's first byte is strings only.
    let page = page();
    let (from, to) = (start.next_multiple_of(page), last & !(page - 1));
    if start != 0 && from < to {
        // SAFETY: whole pages of the server's strings, which nothing can reach once `args` is consumed.
        unsafe { forget(from, to - from) };
    }
}

/// Returns the page size. The kernel rejects unaligned addresses even for empty ranges.
fn page() -> usize {
    let mut size = 4096;
    // SAFETY: the range is empty.
    while size < arch::PAGE && !unsafe { forget(size, 0) } {
        size *= 2;
    }
    size
}

/// Frees memory. Returns whether the kernel accepts the range.
///
/// # Safety
///
/// The range, up to the end of its last page, must not be read any more.
unsafe fn forget(from: usize, len: usize) -> bool {
    const MADV_DONTNEED: usize = 4;
    // SAFETY: by the caller.
    unsafe { syscall(nr::MADVISE, [from, len, MADV_DONTNEED, 0, 0, 0]) }.is_ok()
}
