//! The code that launchers share. Internal
//! to mcp-lifecycle: its API changes whenever they need it.
//!
//! * [`state`]: where a process of this user leaves what a later one has to find.
//!   Judged by descriptor and never by name, for `/tmp` is shared.
//! * [`private`]: directories that nobody else can change, for what is found by name.
//! * [`program`]: a program that comes with the host, in a form that can be executed.
//! * [`freestanding`]: how such a program is compiled, by build scripts.
//!
//! With the feature `engine`, for launchers that talk to an engine:
//!
//! * [`control`]: the thread that owns what must not end with a caller.
//! * [`random`]: names that nobody else has.
//! * [`output`]: messages of the engine as a stream of bytes.
//! * [`fields`]: fields of the engine's own request, over what options say.
//! * [`helper`]: programs that are asked for credentials.

#![forbid(unsafe_code)]

#[cfg(feature = "engine")]
pub mod control;
#[cfg(feature = "engine")]
pub mod fields;
pub mod freestanding;
#[cfg(feature = "engine")]
pub mod helper;
#[cfg(feature = "engine")]
pub mod output;
#[cfg(unix)]
pub mod private;
#[cfg(target_os = "linux")]
pub mod program;
#[cfg(feature = "engine")]
pub mod random;
#[cfg(unix)]
pub mod state;
