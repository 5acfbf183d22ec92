//! The guardian: a small process between the host and one server, which ends the server when the
//! host cannot. This is the host's side; the program is in `guardian-bin/`, and
//! `docs/containment.md` describes both.

mod adopter;
mod attach;
pub mod ending;
mod handle;
mod image;
pub mod protocol;
pub mod shim;
mod spawn;
pub mod text;
mod unreaped;

pub use adopter::adopter;
pub use attach::Attached;
pub use handle::{GuardianHandle, Outcome, Received, how_it_ended};
#[doc(hidden)]
pub use image::image;
pub use image::{is_image, is_image_path};
pub use spawn::{Record, SpawnGuardianError, SpawnRequest, spawn, spawn_from};
