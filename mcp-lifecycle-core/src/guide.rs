//! The design notes of the repository's `docs`; links between them are relative to it.

#[doc = include_str!("../docs/lifecycle.md")]
pub mod lifecycle {}

#[doc = include_str!("../docs/manager.md")]
pub mod manager {}

#[doc = include_str!("../docs/configuration.md")]
pub mod configuration {}

#[doc = include_str!("../docs/writing-a-launcher.md")]
pub mod writing_a_launcher {}

#[doc = include_str!("../docs/moving-from-tokio-child-process.md")]
pub mod moving_from_tokio_child_process {}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
