//! The end of a server: its order, its clocks and its proof.
//!
//! [`ServerHandle`] owns a server and ends it by a ladder of steps, within the times of a
//! [`TerminationPolicy`]. It works with any protocol over stdin and stdout.

pub(crate) mod callback;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod ladder;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod stdin;
pub(crate) mod timing;

pub use error::{TerminateError, TerminateErrorContext};
pub use handle::{ServerHandle, TerminationOutcome};
pub use ladder::Phase;
pub use policy::TerminationPolicy;
pub use report::{EndReason, PhaseRecord, TerminationReport};
pub use stdin::{ServerStdin, ServerStreams};
