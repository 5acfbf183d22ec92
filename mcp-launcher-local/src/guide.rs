//! The design notes, as in the directory `docs` of the repository; links between them are relative to that directory.

#[doc = include_str!("../docs/containment.md")]
pub mod containment {}

#[doc = include_str!("../docs/guardian.md")]
pub mod guardian {}

#[doc = include_str!("../docs/orphans.md")]
pub mod orphans {}

#[doc = include_str!("../docs/windows.md")]
pub mod windows {}

#[doc = include_str!("../docs/spares.md")]
pub mod spares {}
