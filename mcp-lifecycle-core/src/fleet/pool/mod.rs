//! Servers on demand, leased and shared: [`ServerPool`](server_pool::ServerPool).
//!
//! Two callers share a process only if everything that determines it is equal by value: the scope,
//! the launcher, the whole specification with its environment, and the caller's identity, if given.

pub(crate) mod lease;
pub(crate) mod options;
pub(crate) mod scope;
pub(crate) mod server_pool;
