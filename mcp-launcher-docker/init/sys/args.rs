//! What the kernel put on the stack: arguments and environment. And becoming
//! the program that they name.

use core::ffi::{CStr, c_char};

use super::arch::{self, nr};

/// The longest path that is tried; the kernel's own limit.
const LONGEST_PATH: usize = 4096;

/// Where programs are looked for when there is no PATH, as execvp does.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the vector has `count` entries.
        let text = unsafe { self.vector.wrapping_add(index).read() };
        // SAFETY: the kernel terminates every argument, and it lives as long as the program.
        Some(unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    fn environment(&self) -> *const *const c_char {
        self.vector.wrapping_add(self.count + 1)
    }

    fn path(&self) -> &[u8] {
        let mut entry = self.environment();
        loop {
            // SAFETY: the environment is null-terminated, and the loop ends there.
            let text = unsafe { entry.read() };
            if text.is_null() {
                return DEFAULT_PATH;
            }
            // SAFETY: the kernel terminates every variable, and it lives as long as the program.
            let variable = unsafe { CStr::from_ptr(text) }.to_bytes();
            if let Some(path) = variable.strip_prefix(b"PATH=") {
                return path;
            }
            entry = entry.wrapping_add(1);
        }
    }
}

/// Becomes the program that the argument at `index` names, with the arguments
/// from there on. Returns when there is no such program.
pub(crate) fn exec(args: &Args, index: usize) {
    let Some(program) = args.get(index) else { return };
    if program.contains(&b'/') {
        return exec_at(b"", program, args, index);
    }
    for directory in args.path().split(|&byte| byte == b':') {
        exec_at(directory, program, args, index);
    }
}

fn exec_at(directory: &[u8], program: &[u8], args: &Args, index: usize) {
    let mut path = [0_u8; LONGEST_PATH];
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    let parts = directory.iter().chain(slash).chain(program);
    // The last byte stays zero.
    let mut room = path.iter_mut().take(LONGEST_PATH - 1);
    for &byte in parts {
        let Some(to) = room.next() else { return };
        *to = byte;
    }
    let argv = args.vector.wrapping_add(index);
    let call = [
        path.as_ptr() as usize,
        argv as usize,
        args.environment() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: `path` is terminated, and both vectors are the null-terminated ones that the kernel itself put on our stack.
    let _ = unsafe { arch::syscall(nr::EXECVE, call) };
}
