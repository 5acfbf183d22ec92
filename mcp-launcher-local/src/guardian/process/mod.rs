//! The guardian: a small process between the host and one server, there to end the server when the host cannot.
//!
//! This is the host's side. The program itself is in `guardian-bin/`, and `docs/guardian.md` describes both: why it exists, its states, the
//! protocol, and what it does not guarantee.
//!
//! ```text
//! image ────────── the program, once per host process, in a sealed memfd
//! spawn ────────── starts one guardian, which starts one server
//! order ────────── tells one that was started as a spare what to start
//! GuardianHandle ─ asks it things, hears what became of the server, reaps it
//! shim ─────────── what the wrapper of a server becomes
//! adopter ──────── to whom the kernel gives what a killed one guarded
//! ```

mod adopter;
pub mod ending;
mod handle;
mod image;
mod order;
pub mod order_format;
pub mod protocol;
pub(crate) mod shim;
mod spawn;
mod unreaped;

pub(crate) use adopter::adopter;
pub use handle::{GuardianHandle, Received};
#[doc(hidden)]
pub use image::image;
pub(crate) use image::{is_image, is_image_path};
pub use order::Order;
pub use spawn::{Record, SpawnGuardianError, SpawnRequest, spawn, spawn_from};
