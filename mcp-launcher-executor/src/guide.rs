//! The design notes, as in the directory `docs` of the repository; links between them are relative to that directory.

#[doc = include_str!("../docs/first-executor.md")]
pub mod first_executor {}

#[doc = include_str!("../docs/executor.md")]
pub mod executor {}
