//! The conformance kit: our client with our daemon, the real binary, over
//! WebSocket and over its standard streams.

#[path = "support/kit.rs"]
mod kit;
mod support;

use std::process::ExitCode;

use mcp_launcher_executor::ExecutorLauncher;
use mcp_lifecycle_conformance::main as run;
use support::DAEMON;

/// The daemon's arguments. A server whose host was killed lives as long as the lease: 2 s.
const LISTEN: &[&str] = &["--listen", "ws://127.0.0.1:0", "--lease", "2"];

fn main() -> ExitCode {
    run([
        kit::over_websocket("executor-websocket", || DAEMON.to_owned(), LISTEN),
        kit::over_stdio("executor-stdio", || {
            ExecutorLauncher::command(DAEMON, ["--stdio"])
        }),
    ])
}
