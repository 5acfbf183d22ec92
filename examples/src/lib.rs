//! Runnable programs that compose the launchers; see the example targets.

/// The README, so that its program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
