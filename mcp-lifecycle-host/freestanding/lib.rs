//! The ground of a static program without libc: its entry point, its arguments, the
//! system call, and the functions that the compiler assumes. No part of this crate: the
//! build scripts of the launchers compile it with each program (`src/freestanding.rs`).

#![no_std]
// See `mem`.
#![no_builtins]
#![deny(
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod args;
mod mem;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

pub use arch::{O_DIRECTORY, O_NOFOLLOW, PAGE, nr, syscall};
pub use args::Args;

/// Names the function of a program that it begins with: `fn(Args) -> !`.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn mcp_start(args: $crate::Args) -> ! {
            $main(args)
        }
    };
}
