//! The design note, as in the directory `docs` of the repository.

#[doc = include_str!("../docs/contain.md")]
pub(crate) mod contain {}
