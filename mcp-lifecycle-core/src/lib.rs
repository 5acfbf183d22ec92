//! Launches stdio MCP servers and never loses one: the traits, the termination
//! ladder, and a client that owns its server.
//!
#![cfg_attr(feature = "client", doc = "```no_run")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use std::sync::Arc;
//! use mcp_lifecycle_core::rmcp::model::CallToolRequestParams;
//! use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerLauncher, ServerSpec};
//!
//! # async fn example(launcher: impl ServerLauncher) -> Result<(), Box<dyn std::error::Error>> {
//! let spec = ServerSpec::builder("memory", "npx").args(["-y", "@modelcontextprotocol/server-memory"]).build()?;
//! // The launcher is that of another crate, such as `mcp_launcher_local::LocalLauncher::new()`.
//! let server = ServerConfig::new(Arc::new(launcher), spec);
//! let client = LifecycleClient::start(server).await?;
//! for tool in client.list_all_tools().await? { println!("{}", tool.name); }
//! let result = client.call_tool(CallToolRequestParams::new("read_graph")).await?;
//! println!("{result:?}");
//! println!("{}", client.shutdown().await?); // the proof: phases, exit status, what was swept
//! # Ok(())
//! # }
//! ```
//!
//! | Module | Feature | What it is |
//! |---|---|---|
//! | [`launch`] | | the seam: [`ServerLauncher`] and [`ProcessTerminator`], and the data they exchange |
//! | [`terminate`] | | the ladder, its clocks, and [`ServerHandle`], which owns a server of any protocol |
//! | [`client`] | `client` | [`LifecycleClient`], an MCP client over `rmcp` that owns the server it started; [`OwnedTransport`](client::OwnedTransport), an `rmcp` transport that does, for a service loop of your own |
//! | [`fleet`] | `fleet` | [`ServerManager`], a declared set, and [`ServerPool`], servers on demand |
//! | [`config`] | `config` | the files that users of MCP hosts already have |
//!
//! Each needs only those above it. `client`, `fleet` and `config` are on by default; `toml` (Codex's
//! files) and `metrics` (export of counters) are not. A launcher needs the first two modules
//! (`default-features = false`), and depends on no MCP library.

#![forbid(unsafe_code)]

#[cfg(feature = "backend")]
#[doc(hidden)]
pub mod backend;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "document")]
pub mod document;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
pub mod launch;
#[doc(hidden)]
pub mod lock;
#[doc(hidden)]
pub mod size;
pub mod terminate;

pub use launch::{
    Containment, ErrorChain, ExitStatus, LaunchError, LaunchedServer, ProcessTerminator,
    ServerIdentity, ServerLauncher, ServerSpec, TerminationSemantics,
};
pub use terminate::{
    EndReason, ServerHandle, TerminateError, TerminationPolicy, TerminationReport,
};

#[cfg(feature = "client")]
pub use client::{
    CallError, CallOptions, ClientState, LifecycleClient, LifecyclePeer, ServerConfig, ServerEvent,
    StartError,
};
#[cfg(feature = "fleet")]
pub use fleet::{FleetOptions, Lease, Scope, ServerManager, ServerPool};
#[cfg(feature = "client")]
pub use rmcp;
