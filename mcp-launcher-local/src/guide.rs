//! The design notes, as in the directory `docs` of the repository.

#[doc = include_str!("../docs/containment.md")]
pub mod containment {}

#[doc = include_str!("../docs/guardian.md")]
pub mod guardian {}

#[doc = include_str!("../docs/orphans.md")]
pub mod orphans {}
