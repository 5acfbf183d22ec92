//! A declared set of servers. Each belongs to the manager from before its launch until it is proven
//! gone, also when it is no longer declared.

mod refresh;
pub(crate) mod server_manager;
mod settled;
