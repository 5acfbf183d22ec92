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
mod answers;
#[cfg(target_os = "linux")]
mod cgroup;
mod command;
mod ending;
#[cfg(unix)]
mod group;
#[cfg(unix)]
#[cfg_attr(not(target_os = "linux"), path = "guardian/absent.rs")]
#[doc(hidden)]
pub mod guardian;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
pub mod history;
mod identity;
pub mod inventory;
#[cfg(windows)]
mod job;
mod launcher;
mod level;
#[cfg(target_os = "linux")]
mod login;
#[cfg_attr(not(target_os = "linux"), path = "orphans/absent.rs")]
mod orphans;
#[cfg(target_os = "linux")]
mod patience;
#[cfg(unix)]
mod pipes;
#[cfg_attr(unix, path = "plan/unix.rs")]
#[cfg_attr(windows, path = "plan/windows.rs")]
mod plan;
mod resolve;
#[cfg_attr(windows, path = "sys/windows/mod.rs")]
mod sys;
#[cfg(unix)]
mod worker;
#[cfg(any(target_os = "linux", windows))]
#[cfg_attr(windows, path = "wrapper/windows.rs")]
mod wrapper;

pub use launcher::LocalLauncher;
pub use level::{Isolation, Limits};
#[cfg(target_os = "linux")]
pub use login::login_path;
#[cfg(target_os = "linux")]
pub use wrapper::{Require, WrapError, Wrapper};
#[cfg(windows)]
pub use wrapper::{WrapError, Wrapper};

/// For `mcp-contain`, which watches its host where it stays itself.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use sys::hold_parent;
