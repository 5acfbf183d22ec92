//! The seam: how a server is described, started, watched and ended.
//!
//! A launcher implements [`ServerLauncher`] and [`ProcessTerminator`] and needs nothing
//! else of this crate. It supplies primitives; the order, the clocks and the proof are in
//! [`terminate`](crate::terminate).

pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod identity;
pub(crate) mod launcher;
pub(crate) mod reap;
pub(crate) mod remnant;
pub(crate) mod semantics;
pub(crate) mod spec;
pub(crate) mod terminator;

pub use error::launch::{LaunchError, LaunchErrorKind, ReapError};
pub use error::step::StepError;
pub use error::{BoxError, ErrorChain};
pub use exit::ExitStatus;
pub use identity::ServerIdentity;
pub use launcher::{BoxRead, BoxWrite, LaunchedParts, LaunchedServer, ServerLauncher};
pub use reap::{ReapReport, UnknownRemnant};
pub use remnant::{Evidence, Gone, Remnant, RemnantKind};
pub use semantics::{Containment, ContainmentUnavailable, Guarantee, Reach, TerminationSemantics};
pub use spec::display::DisplayCommand;
pub use spec::env::{EnvPolicy, InheritEnv};
pub use spec::error::SpecError;
pub use spec::{ServerSpec, ServerSpecBuilder};
pub use terminator::ProcessTerminator;
