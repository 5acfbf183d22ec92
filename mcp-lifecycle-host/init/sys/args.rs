//! The arguments, and becoming the program that they name.

use core::ffi::CStr;

use super::arch::{self, nr};

/// The longest path that is tried; the kernel's own limit.
const LONGEST_PATH: usize = 4096;

/// Where programs are looked for when there is no PATH, as execvp does.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Arguments and environment.
pub(crate) struct Args(freestanding::Args);

freestanding::start!(main);

fn main(args: freestanding::Args) -> ! {
    crate::main(Args(args))
}

impl Args {
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.0.get(index).map(CStr::to_bytes)
    }

    fn path(&self) -> &[u8] {
        let (_, mut entry) = self.0.vectors(0);
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
    let (argv, environment) = args.0.vectors(index);
    let call = [path.as_ptr() as usize, argv as usize, environment as usize, 0, 0, 0];
    // SAFETY: `path` is terminated, and both vectors are the null-terminated ones that the kernel itself put on our stack.
    let _ = unsafe { arch::syscall(nr::EXECVE, call) };
}
