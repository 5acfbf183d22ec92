//! A declared set of servers: [`ServerManager`](server_manager::ServerManager).
//!
//! A server belongs to the manager from before its launch until it is proven gone, even if it is no
//! longer declared. So old servers cannot keep running unnoticed.

mod declared;
pub(crate) mod error;
mod refresh;
pub(crate) mod server_manager;
mod settled;
