//! Many servers of one owner: a declared set, or a pool that starts them on demand.
//!
//! [`ServerManager`] and [`ServerPool`] run on the same engine: a *slot* per key decides,
//! without a clock and without I/O, when a process starts, who leases it and when it ends.

pub(crate) mod acquire_error;
pub(crate) mod counters;
pub(crate) mod engine;
pub(crate) mod inventory;
pub(crate) mod journal;
pub(crate) mod manager;
pub(crate) mod outcome;
pub(crate) mod pool;
pub(crate) mod restart;
pub(crate) mod shutdown;
pub(crate) mod slots;
pub(crate) mod tie;

pub use acquire_error::{AcquireError, AcquireErrorContext, AcquireErrorKind};
pub use counters::Counters;
pub use inventory::record::{KeptBy, ServerRecord, ServerState};
pub use manager::builder::ServerManagerBuilder;
pub use manager::error::{
    NotReadyError, NotReadyErrorKind, RefreshError, RefreshErrorKind, RequiredFailure,
};
pub use manager::server_manager::{Replacement, ServerManager};
pub use outcome::{RefreshReport, ServerOutcome, StartOutcome};
pub use pool::builder::ServerPoolBuilder;
pub use pool::lease::Lease;
pub use pool::options::AcquireOptions;
pub use pool::scope::Scope;
pub use pool::server_pool::ServerPool;
pub use shutdown::{ServerEnd, ShutdownError, ShutdownReport};
