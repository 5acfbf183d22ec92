//! The conformance kit that any launcher runs.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};
//! # fn launcher() -> Arc<dyn mcp_lifecycle_core::ServerLauncher> { unimplemented!() }
//! # async fn example() {
//! let kit = Conformance::new(launcher(), FixtureCommand::local("target/debug/mcp-fixture"));
//! let matrix = run(&kit).await;
//! println!("{matrix}");
//! matrix.assert();
//! # }
//! ```
//!
//! It crosses misbehaving servers ([`Fixture`]) with the ways a life can end
//! ([`Way`]), checks what the launcher declares by experiment, and fails on
//! any survivor. Its design, and what counts as truth, is in
//! `docs/conformance.md`. The pieces, from the ground up:
//!
//! * [`alive`]: the observer. Every process of the fixture holds a connection
//!   to it; end of file on the connection proves that every holder is dead.
//! * [`copies`]: programs that every user may run, for a test that goes on as another user.
//! * [`census`]: what this process itself holds on to (descriptors, threads,
//!   children), to be the same after as before.
//! * [`deadline`]: a suite that overruns aborts instead of hanging.
//! * [`host`]: a host that is started only to be killed.
//! * [`random`]: choices that a printed seed repeats.
//!
//! The program under observation is `mcp-fixture`, a binary of this package:
//! one misbehaviour per subcommand.

pub mod alive;
pub mod census;
pub mod copies;
pub mod deadline;
pub mod host;
pub mod random;

mod command;
mod conformance;
mod declared;
mod failure;
mod fixture;
mod matrix;
mod polls;
mod server;
mod stage;
mod ways;

pub use command::FixtureCommand;
pub use conformance::{Conformance, run};
pub use fixture::Fixture;
pub use matrix::{Matrix, Verdict};
pub use ways::Way;
