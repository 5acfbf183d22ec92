//! The design notes, as in the directory `docs` of the repository; links between them are relative
//! to that directory.

#[doc = include_str!("../docs/containment.md")]
pub mod containment {}
