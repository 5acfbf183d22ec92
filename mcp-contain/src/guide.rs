//! The design notes, as in the directory `docs` of the repository; links between them are relative to that directory.

#[doc = include_str!("../docs/contain.md")]
pub(crate) mod contain {}

#[doc = include_str!("../docs/contain-reference.md")]
pub(crate) mod contain_reference {}
