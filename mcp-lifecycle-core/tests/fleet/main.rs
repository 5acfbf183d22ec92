//! The manager and the pool in virtual time, with servers inside this process.
//!
//! Real processes are the business of the conformance package; here it is the
//! policy that is looked at, to the millisecond and without waiting for it.

mod asked_again;
mod callbacks;
mod drain;
mod endless;
mod fake;
mod habits;
mod halves;
mod log;
mod longest;
mod manager;
mod manager_end;
#[cfg(feature = "metrics")]
mod metrics;
mod moody;
mod pool;
mod pool_limits;
mod prepare;
mod progress;
mod proof_later;
mod restart;
mod same_config;
mod texts;
