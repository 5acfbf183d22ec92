#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod error;
#[cfg(fuzzing)]
#[path = "../../fuzz/src/launcher/mod.rs"]
pub mod fuzzing;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
#[doc(hidden)]
pub mod wire;

/// The page for a first try; its code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/first-executor.md")]
mod first_executor {}

use wire::{link, protocol};

pub use client::{ExecServerConfig, ExecutorLauncher};
pub use error::ExecutorError;
use error::Result;
