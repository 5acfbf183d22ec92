//! The code that the launchers of processes and of containers share on one machine. Internal
//! to mcp-lifecycle: its API changes whenever they need it.
//!
//! * [`state`]: where a process of this user leaves what a later one has to find.
//!   Judged by descriptor and never by name, for `/tmp` is shared.
//! * [`private`]: directories that nobody else can change, for what is found by name.
//! * [`program`]: a program that comes with the host, in a form that can be executed.
//! * [`freestanding`]: how such a program is compiled, by build scripts.

#![forbid(unsafe_code)]

pub mod freestanding;
#[cfg(unix)]
pub mod private;
#[cfg(target_os = "linux")]
pub mod program;
#[cfg(unix)]
pub mod state;
