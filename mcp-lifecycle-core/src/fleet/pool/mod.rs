//! Servers on demand, leased and shared.

pub(crate) mod lease;
pub(crate) mod scope;
pub(crate) mod server_pool;
