#![doc = include_str!("../README.md")]
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
