#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// Engines on Windows were never tried.
#![cfg(unix)]

#[cfg(test)]
mod alone;
mod container;
mod control;
mod dial;
mod endpoint;
mod engine;
#[cfg(test)]
mod fake;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod host;
mod labels;
mod last_will;
mod launcher;
mod ledger;
mod machine;
mod options;
mod orphans;
mod supervised;
mod wrapper;

pub use endpoint::{Endpoint, EndpointError};
pub use launcher::{DockerLauncher, DockerLauncherBuilder};
pub use options::{ContainerOptions, Init, Mount, PullPolicy};
pub use wrapper::{ContainerTracker, ReapPolicy, Tracked, Tracking};
