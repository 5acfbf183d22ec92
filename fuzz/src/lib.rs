//! Counted memory, shared by the targets: an input which is made into many times its
//! size is found though it is small.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's memory; how much is in use, and was at most.
struct Counted;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's; only numbers are added.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: Counted = Counted;

/// Does the work on an input, which may take a fixed amount of memory and a
/// multiple of the input.
pub fn bounded(bytes: &[u8], work: impl FnOnce(&[u8])) {
    const FIXED: usize = 256 << 10;
    const TIMES: usize = 32;
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work(bytes);
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    let limit = FIXED + TIMES * bytes.len();
    assert!(most <= limit, "{most} bytes of memory for {} of input", bytes.len());
}
