//! The memory of the arguments and the environment.

use core::ffi::c_char;

use super::{Args, arch, syscall};

/// Keeps the last variable from what is executed later. This program's own environment, as others see it, stays as it is.
pub(crate) fn keep_last_variable(args: &Args) {
    let (_, mut entry) = args.vectors(0);
    let mut last = None;
    // SAFETY: the environment is null-terminated, and the loop ends there.
    while unsafe { !entry.read().is_null() } {
        last = Some(entry);
        entry = entry.wrapping_add(1);
    }
    if let Some(last) = last {
        // SAFETY: an entry of the vector that the kernel put on our stack, which is ours to write to; no reference to it exists. It stays null-terminated.
        unsafe { last.cast_mut().write(core::ptr::null()) };
    }
}

/// Gives the memory of the strings back, as far as it consists of whole pages.
///
/// An environment can be megabytes, and one guardian exists per server. This also clears what secrets those pages held.
pub(crate) fn release(args: Args) {
    let (argv, mut entry) = args.vectors(0);
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
    let page = page();
    let (from, to) = (start.next_multiple_of(page), last as usize & !(page - 1));
    if start != 0 && from < to {
        // SAFETY: whole pages of argument and environment strings, which nothing can reach once `args` is consumed.
        let _ = unsafe { forget(from, to - from) };
    }
}

/// The size of a page. The kernel refuses an address at which none begins, also where there is nothing to do.
fn page() -> usize {
    let mut size = 4096;
    // SAFETY: no byte is meant.
    while size < arch::PAGE && unsafe { forget(size, 0) } != 0 {
        size *= 2;
    }
    size
}

/// Gives memory back to the kernel.
///
/// # Safety
///
/// Nobody reads what is there, up to the end of its last page.
unsafe fn forget(from: usize, len: usize) -> isize {
    const MADV_DONTNEED: usize = 4;
    // SAFETY: by the caller.
    unsafe { syscall(arch::nr::MADVISE, [from, len, MADV_DONTNEED, 0, 0, 0]) }
}
