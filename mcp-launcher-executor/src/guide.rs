//! The design notes of the repository's `docs`; links between them are relative to it.

#[doc = include_str!("../docs/first-executor.md")]
pub mod first_executor {}

#[doc = include_str!("../docs/executor.md")]
pub mod executor {}
