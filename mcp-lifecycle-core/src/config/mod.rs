//! Descriptions of servers: [`ServerConfig`](crate::ServerConfig), and [`ConfigReader`], which reads it
//! from the files that users of MCP hosts already have.
//!
//! ```
//! # use std::sync::Arc;
//! # use mcp_lifecycle_core::config::{ConfigReader, Format, LauncherRegistry};
//! # fn example(local: Arc<dyn mcp_lifecycle_core::ServerLauncher>)
//! # -> Result<(), mcp_lifecycle_core::config::ConfigError> {
//! let launchers = LauncherRegistry::new(local);
//! let text = r#"{ "mcpServers": {
//!     "time": { "command": "uvx", "args": ["mcp-server-time"], "required": true },
//!     "docs": { "url": "https://example.com/mcp" }
//! } }"#;
//! let set = ConfigReader::new(&launchers).read_str(text, Format::Json)?;
//! assert_eq!(set.servers.len(), 1);
//! assert_eq!(set.skipped[0].to_string(), "`docs` is reached by URL and has nothing to launch");
//! # Ok(()) }
//! ```
//!
//! All keys are described in `docs/configuration.md`. Unknown keys belong to other hosts and are
//! ignored; a known key with a wrong value is an error with file, line and column. No error shows
//! the value of an environment variable.

mod entry;
mod error;
mod expand;
mod reader;
mod registry;
mod values;

#[cfg(test)]
mod tests;

pub use crate::document::Format;
pub use error::{ConfigError, ConfigErrorContext, ConfigErrorKind};
pub use reader::{ConfigReader, ServerSet, Skipped};
pub use registry::LauncherRegistry;
