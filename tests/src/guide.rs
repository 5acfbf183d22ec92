//! The design notes, as in the directory `docs` of the repository.

#[doc = include_str!("../docs/conformance.md")]
pub mod conformance {}
