//! Launches stdio MCP servers as containers through the Docker Engine API.

#![forbid(unsafe_code)]

mod container;
mod control;
mod endpoint;
mod engine;
mod labels;
mod launcher;
mod lease;
mod machine;
mod options;
mod orphans;
mod progress;
mod random;
#[cfg(unix)]
mod wrapper;

pub use endpoint::{Endpoint, EndpointError};
pub use launcher::{DockerLauncher, DockerLauncherBuilder};
pub use options::{ByteSize, ContainerOptions, Init, Mount, PullPolicy};
pub use progress::{PullObserver, PullProgress};
#[cfg(unix)]
pub use wrapper::{ContainerTracker, ProxyMode, ReapPolicy};
