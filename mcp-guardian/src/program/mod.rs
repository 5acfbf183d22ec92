//! The guardian: a small process between the host and one server, which ends the server when the
//! host cannot.
//!
//! This is the host's side. The program itself is in `guardian-bin/`, and `docs/containment.md`
//! describes both: why it exists, its states, the protocol, and its limits.
//!
//! ```text
//! image ────────── the program, once per host process, in a sealed memfd
//! spawn ────────── starts one guardian, which starts one server
//! GuardianHandle ─ sends requests to it, receives its reports, reaps it
//! shim ─────────── the program that the wrapper of a server becomes
//! adopter ──────── finds the process that inherits our orphans
//! ```

mod adopter;
pub mod ending;
mod handle;
mod image;
pub mod protocol;
pub mod shim;
mod spawn;
mod unreaped;

pub use adopter::adopter;
pub use handle::{GuardianHandle, Received};
#[doc(hidden)]
pub use image::image;
pub use image::{is_image, is_image_path};
pub use spawn::{Record, SpawnGuardianError, SpawnRequest, spawn, spawn_from};
