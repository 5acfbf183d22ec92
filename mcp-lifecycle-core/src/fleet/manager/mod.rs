//! A declared set of servers: [`ServerManager`](server_manager::ServerManager).
//!
//! The set is declared as a whole, by [`refresh`](server_manager::ServerManager::refresh): what is
//! new starts, what is unchanged keeps its process, what has changed is replaced,
//! and what is missing ends. Between two refreshes a server that dies starts
//! again, within its [`RestartPolicy`](crate::client::RestartPolicy).
//!
//! A server belongs to the manager from before it is launched until it is proven
//! gone, whether or not it is still declared. There is no way to replace a
//! manager's servers and keep the old ones running by accident.
//!
//! Not guaranteed: that a server without which the application cannot work is
//! there. A required server that fails makes the refresh fail; what to do about
//! it is the application's decision.

pub(crate) mod builder;
mod declared;
pub(crate) mod error;
mod refresh;
pub(crate) mod server_manager;
mod settings;
mod settled;
