//! The functions that the compiler and `core` assume to exist.
//!
//! With `no_builtins`, these loops are not compiled into calls of themselves. The longest copies
//! are a few kilobytes, so byte loops suffice.

/// # Safety
///
/// Same contract as C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: `i < len`, and the caller vouches for `len` bytes.
        let byte = unsafe { from.wrapping_add(i).read() };
        // SAFETY: as above, for the destination.
        unsafe { to.wrapping_add(i).write(byte) };
    }
    to
}

/// # Safety
///
/// Same contract as C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.cast_const() <= from {
        // SAFETY: copying upwards reads every byte before it is overwritten; the rest is the caller's contract.
        return unsafe { memcpy(to, from, len) };
    }
    for i in (0..len).rev() {
        // SAFETY: `i < len`, and the caller vouches for `len` bytes; downwards, every byte is read before it is overwritten.
        let byte = unsafe { from.wrapping_add(i).read() };
        // SAFETY: as above, for the destination.
        unsafe { to.wrapping_add(i).write(byte) };
    }
    to
}

/// # Safety
///
/// Same contract as C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: `i < len`, and the caller vouches for `len` bytes.
        unsafe { to.wrapping_add(i).write(byte as u8) };
    }
    to
}

/// # Safety
///
/// Same contract as C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: `i < len`, and the caller vouches for `len` bytes of both.
        let x = unsafe { a.wrapping_add(i).read() };
        // SAFETY: as above.
        let y = unsafe { b.wrapping_add(i).read() };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
///
/// Same contract as C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, len) }
}

/// # Safety
///
/// Same contract as C's `strlen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller vouches for every byte up to the terminator, where the loop stops.
    while unsafe { text.wrapping_add(len).read() } != 0 {
        len += 1;
    }
    len
}

/// Referenced by the unwind tables of the precompiled `core`; never called, as nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
