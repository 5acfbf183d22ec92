//! What servers there are: [`ServerConfig`], and reading it from files.

mod server;

pub use server::{ServerConfig, Sharing};
