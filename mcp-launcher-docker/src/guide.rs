//! The design note, as in the directory `docs` of the repository; links between them are relative to that directory.

#[doc = include_str!("../docs/docker.md")]
pub mod docker {}
