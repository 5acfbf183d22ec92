//! Our daemon, the real binary, and our client with it.

mod audit;
mod client;
mod command_line;
mod faults;
mod first_page;
#[path = "../support/frames.rs"]
mod frames;
mod input;
#[path = "../support/lag.rs"]
mod lag;
mod limits;
mod metrics;
mod plain;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/raw.rs"]
mod raw;
mod restart;
mod retention;
mod service;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod tls;
mod transport;
mod unix;
mod unproven;
mod wire;

/// Names that nearly all of the modules use.
mod prelude {
    pub(crate) use crate::raw::{Raw, start};
    pub(crate) use crate::support::*;
    pub(crate) use mcp_executor::{Daemon, Limits, Listener};
    pub(crate) use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
    pub(crate) use mcp_lifecycle_core::launch::{
        ErrorChain, ExitStatus, LaunchContext, LaunchErrorKind, Reach, ServerLauncher, ServerSpec,
    };
    pub(crate) use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
    pub(crate) use nix::sys::signal::Signal;
    pub(crate) use serde_json::{Value, json};
    pub(crate) use std::path::Path;
    pub(crate) use std::process::Stdio;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::time::{Duration, Instant};
    pub(crate) use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    pub(crate) use tokio::net::TcpStream;
    pub(crate) use tokio::process::Command;
}
