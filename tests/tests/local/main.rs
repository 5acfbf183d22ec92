//! The local launcher and the lifecycle client against real processes.

mod bad_input;
mod calls;
#[cfg(target_os = "linux")]
mod contained;
#[cfg(target_os = "linux")]
mod contained_child;
mod eras;
mod host_ends;
mod ownership;
#[cfg(target_os = "linux")]
mod process_wrap_cases;
mod real_servers;
mod shutdown;
mod support;
mod transport;
#[cfg(target_os = "linux")]
mod tree;
