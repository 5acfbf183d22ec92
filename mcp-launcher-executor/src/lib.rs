//! Launches stdio MCP servers on another machine, through an executor.
//!
//! * [`Executor`] is the seam: a remote runtime that starts processes and
//!   carries their stdio. [`ExecutorLauncher`] turns any of them into a
//!   [`ServerLauncher`](mcp_lifecycle_core::ServerLauncher).
//! * [`ExecutorSet`] makes one executor of many.
//! * [`ExecServer`] is the client of codex's exec-server protocol, over
//!   WebSocket or the stdio of any command. It works with a deployed
//!   `codex exec-server` and is at its best with our own daemon.
//! * `daemon` (feature) is that daemon: the same protocol, plus what it lacks,
//!   negotiated. The binary is `mcp-executor`.
//!
//! What each pairing can promise differs, and is data:
//! [`Executor::semantics`]. The design, the state machines and what is *not*
//! guaranteed are in `docs/executor.md`.
//!
//! ```no_run
//! use mcp_launcher_executor::{ExecServer, ExecServerConfig, ExecutorLauncher};
//!
//! # async fn demo() -> Result<(), mcp_launcher_executor::ExecutorError> {
//! let config = ExecServerConfig::command("ssh", ["build-box", "mcp-executor", "--stdio"]);
//! let launcher = ExecutorLauncher::new(ExecServer::connect(config).await?);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

#[cfg(all(doc, not(doctest)))]
pub mod guide;
pub mod protocol;

mod client;
mod command;
#[cfg(feature = "daemon")]
pub mod daemon;
mod error;
mod executor;
#[cfg(all(fuzzing, feature = "daemon"))]
pub mod fuzzing;
mod launcher;
mod link;
mod mutex;
#[cfg(feature = "wss")]
mod pem;
mod set;
mod wire;

/// The page for a first try; its code compiles.
#[cfg(all(doctest, feature = "wss"))]
#[doc = include_str!("../../docs/first-executor.md")]
mod first_executor {}

pub use client::{CwdDialect, ExecServer, ExecServerConfig};
pub use command::RemoteCommand;
pub use error::{ExecutorError, SharedError};
pub use executor::{Executor, RemoteProcess, StartedProcess};
pub use launcher::ExecutorLauncher;
pub use set::{ExecutorSet, Health, Member, MemberState, UnknownMember};
