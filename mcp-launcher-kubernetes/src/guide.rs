//! The design note, as in the directory `docs` of the repository.

#[doc = include_str!("../docs/kubernetes.md")]
pub mod kubernetes {}
