//! Launches stdio MCP servers as processes on this machine and never loses one.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_launcher_local::LocalLauncher;
//! use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerSpec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = ServerSpec::builder("time", "uvx").arg("mcp-server-time").build()?;
//! let server = ServerConfig::new(Arc::new(LocalLauncher::new()), spec);
//! let client = LifecycleClient::start(server).await?;
//! println!("{:?}", client.list_all_tools().await?);
//! println!("{}", client.shutdown().await?);
//! # Ok(()) }
//! ```

#[cfg(target_os = "linux")]
mod cgroup;
mod command;
mod ending;
mod group;
#[cfg_attr(not(target_os = "linux"), path = "guardian/absent.rs")]
#[doc(hidden)]
pub mod guardian;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod identity;
pub mod inventory;
mod launcher;
mod level;
#[cfg_attr(not(target_os = "linux"), path = "orphans/absent.rs")]
mod orphans;
#[cfg(target_os = "linux")]
mod patience;
mod pipes;
mod resolve;
mod sys;
mod worker;
#[cfg(target_os = "linux")]
mod wrapper;

pub use launcher::LocalLauncher;
pub use level::Isolation;
#[cfg(target_os = "linux")]
pub use wrapper::{Require, WrapError, Wrapper};
