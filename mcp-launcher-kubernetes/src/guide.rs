//! The design note, as in the directory `docs` of the repository; links between notes are relative to that directory.

#[doc = include_str!("../docs/kubernetes.md")]
pub mod kubernetes {}
