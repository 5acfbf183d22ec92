//! Runnable programs that compose the launchers; see the example targets.

/// The README, so that its program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The guide to many servers, likewise.
#[cfg(doctest)]
#[doc = include_str!("../../docs/manager.md")]
pub struct Manager;
