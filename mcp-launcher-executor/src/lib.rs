//! Launches stdio MCP servers on another machine, through an executor.
//!
//! [`ExecutorLauncher`] is the client of codex's exec-server protocol, over WebSocket or the stdio of
//! any command. It works with a deployed `codex exec-server` and is at its best with our own daemon.
//!
//! That daemon is the crate `mcp-executor`: the same protocol, plus what it lacks, negotiated.
//!
//! The guarantees of each pairing differ, and are data: its
//! [`semantics`](mcp_lifecycle_core::ServerLauncher::semantics). `docs/executor.md`
//! has the design, the state machines and the limits.
//!
//! ```no_run
//! use mcp_launcher_executor::ExecutorLauncher;
//!
//! let launcher = ExecutorLauncher::command("ssh", ["build-box", "mcp-executor", "--stdio"]).build();
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
#[cfg(all(fuzzing, feature = "wss"))]
#[path = "../../fuzz/src/launcher/mod.rs"]
pub mod fuzzing;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
#[doc(hidden)]
pub mod wire;

/// The page for a first try; its code compiles.
#[cfg(all(doctest, feature = "wss"))]
#[doc = include_str!("../../docs/first-executor.md")]
mod first_executor {}

use wire::{link, protocol};

pub use client::{ExecServerConfig, ExecutorLauncher};
pub use error::ExecutorError;
