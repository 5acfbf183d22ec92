//! Launches stdio MCP servers as pods through the Kubernetes API.
//!
//! [`KubernetesLauncher`] is a [`ServerLauncher`]: a server *is* a pod, described by
//! [`PodOptions`] in its specification.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_launcher_kubernetes::{KubernetesLauncher, PodOptions};
//! use mcp_lifecycle_core::{LifecycleClient, ServerConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Arc::new(KubernetesLauncher::builder().namespace("mcp").build()?);
//! let spec = PodOptions::new("mcp/time")
//!     .run_as_user(1000)
//!     .limit("memory", "128Mi")
//!     .command("time", "/server")
//!     .build()?;
//! let client = LifecycleClient::start(ServerConfig::new(launcher, spec)).await?;
//! let report = client.shutdown().await?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! `docs/kubernetes.md` states the guarantees and limits.
//!
//! [`ServerLauncher`]: mcp_lifecycle_core::ServerLauncher

#![forbid(unsafe_code)]

mod cluster;
mod control;
mod decide;
mod error;
mod facts;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod init;
mod labels;
mod launcher;
mod lease;
mod options;
mod orphans;
mod pod;

pub use launcher::{KubernetesLauncher, KubernetesLauncherBuilder};
pub use options::{Init, PodOptions, PullPolicy};
