//! Launches stdio MCP servers on another machine, through an executor.
//!
//! * [`Executor`] is the seam: a remote runtime that starts processes and
//!   carries their stdio. [`ExecutorLauncher`] turns any of them into a
//!   [`ServerLauncher`](mcp_lifecycle_core::ServerLauncher).
//! * [`ExecServer`] is the client of codex's exec-server protocol, over
//!   WebSocket or the stdio of any command. It works with a deployed
//!   `codex exec-server` and is at its best with our own daemon.
//!
//! That daemon is the crate `mcp-executor`: the same protocol, plus what it lacks, negotiated.
//!
//! The guarantees of each pairing differ, and are data: [`Executor::semantics`]. `docs/executor.md`
//! has the design, the state machines and the limits.
//!
//! ```no_run
//! use mcp_launcher_executor::ExecutorLauncher;
//!
//! let launcher = ExecutorLauncher::command("ssh", ["build-box", "mcp-executor", "--stdio"]).build();
//! ```

#![forbid(unsafe_code)]

mod client;
mod command;
mod error;
mod executor;
#[cfg(all(fuzzing, feature = "wss"))]
#[path = "../../fuzz/src/launcher/mod.rs"]
pub mod fuzzing;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod launcher;
#[doc(hidden)]
pub mod wire;

/// The page for a first try; its code compiles.
#[cfg(all(doctest, feature = "wss"))]
#[doc = include_str!("../../docs/first-executor.md")]
mod first_executor {}

#[cfg(feature = "wss")]
use wire::pem;
use wire::{link, mutex, protocol};

pub use client::{ExecServer, ExecServerConfig};
pub use command::RemoteCommand;
pub use error::ExecutorError;
pub use executor::Executor;
pub use launcher::ExecutorLauncher;
