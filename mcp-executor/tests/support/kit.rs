//! The conformance kit with an executor.

use std::env;
use std::process::Command;

use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use mcp_lifecycle_conformance::Kit;

use crate::support::{launcher, listen};

/// Tells a process of the kit where its executor is.
const EXECUTOR: &str = "MCP_TEST_EXECUTOR";

/// How often a host is killed in the middle of its launches: each round takes a lease.
const ROUNDS: u32 = 3;

/// A kit whose executors are commands, of which each process starts its own.
pub(crate) fn over_stdio(name: &str, config: fn() -> ExecServerConfig) -> Kit {
    Kit::new(name, move || launcher(config())).rounds(ROUNDS)
}

/// A kit with one executor for all of its processes, over WebSocket.
pub(crate) fn over_websocket(name: &str, program: fn() -> String, args: &'static [&str]) -> Kit {
    let place = || env::var(EXECUTOR).expect("the run has started an executor");
    let kit = Kit::new(name, move || async move {
        launcher(ExecutorLauncher::websocket(place())).await
    });
    kit.rounds(ROUNDS).processes(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let peer = runtime.block_on(listen(&program(), args));
        Ok(move || {
            // All of both: they live for as long as there are cells.
            let (_runtime, peer) = (&runtime, &peer);
            let mut command = Command::new(env::current_exe().unwrap());
            command.env(EXECUTOR, &peer.url);
            command
        })
    })
}
