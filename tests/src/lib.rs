#![doc = include_str!("../README.md")]

pub mod alive;
pub mod census;
#[cfg(unix)]
pub mod copies;
pub mod deadline;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
pub mod random;
#[cfg(windows)]
pub mod wine;

mod births;
mod cell;
mod command;
mod contract;
mod experiments;
mod failure;
mod fixture;
mod host;
mod kit;
mod polls;
mod program;
mod run;
mod server;
mod stage;
mod verdict;
mod ways;

pub use command::FixtureCommand;
pub use fixture::Fixture;
pub use kit::{Kit, main};
pub use program::fixture_main;
pub use ways::Way;
