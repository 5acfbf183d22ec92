//! The seam: how a server is described, started, watched and ended.
//!
//! A launcher implements [`ServerLauncher`] and [`ProcessTerminator`], which are primitives; the
//! order, the clocks and the proof are in [`terminate`](crate::terminate).

pub(crate) mod containment;
pub(crate) mod context;
pub(crate) mod display_command;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod identity;
pub(crate) mod launcher;
pub(crate) mod macros;
pub(crate) mod options;
pub(crate) mod proof;
pub(crate) mod remnant;
pub(crate) mod spec;

pub use containment::{Containment, ContainmentUnavailable, Guarantee, Reach};
pub use context::{LaunchContext, LaunchProgress};
pub use display_command::DisplayCommand;
#[doc(hidden)]
pub use display_command::quote;
pub use environment::{EnvPolicy, InheritEnv};
pub use error::{
    BoxError, ErrorChain, LaunchError, LaunchErrorContext, LaunchErrorKind, ReapError, SpecError,
    StepError,
};
pub use exit::ExitStatus;
pub use identity::ServerIdentity;
pub use launcher::{
    BoxRead, BoxWrite, LaunchedParts, LaunchedServer, ProcessTerminator, ServerLauncher,
    TerminationSemantics,
};
pub use proof::{Evidence, Gone};
pub use remnant::{ReapReport, Remnant, RemnantKind, UnknownRemnant};
pub use spec::{ServerSpec, ServerSpecBuilder};
