//! Many servers of one owner: a declared set, or a pool that starts them on demand.

pub(crate) mod acquire_error;
pub(crate) mod engine;
pub(crate) mod inventory;
pub(crate) mod journal;
pub(crate) mod manager;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod owner;
pub(crate) mod pool;
pub(crate) mod restart;
pub(crate) mod shutdown;
pub(crate) mod slots;

pub use acquire_error::{AcquireError, AcquireErrorContext, AcquireErrorKind};
pub use inventory::{KeptBy, ServerRecord, ServerState};
pub use manager::server_manager::{Replacement, ServerManager, ServerManagerBuilder};
pub use options::{FleetOptions, FleetServer, Sharing};
pub use outcome::{RefreshError, RefreshErrorKind, RefreshReport, ServerOutcome, StartOutcome};
pub use pool::lease::Lease;
pub use pool::scope::Scope;
pub use pool::server_pool::{ServerPool, ServerPoolBuilder};
pub use restart::RestartPolicy;
pub use shutdown::{ServerEnd, ShutdownError, ShutdownReport};
