//! The conformance kit: our client with the real `codex exec-server`, over
//! WebSocket and over its standard streams. What differs there is declared.

#[path = "support/kit.rs"]
mod kit;
mod support;

use std::process::ExitCode;
use std::time::Duration;

use mcp_launcher_executor::ExecutorLauncher;
use mcp_lifecycle_conformance::{Way, main as run};
use support::codex;

/// Longer than codex takes to end a colony's 150 processes one after another: over 20 s where eight of
/// them share a slow processor.
const CODEX_ENDS: Duration = Duration::from_secs(100);

/// Longer than codex lives at times when its standard input has ended: 68 s seen, and over 120 s beside
/// a load.
const CODEX_WAITS: Duration = Duration::from_secs(240);

const LISTEN: &[&str] = &["exec-server", "--listen", "ws://127.0.0.1:0"];

fn main() -> ExitCode {
    run([
        kit::over_websocket("codex-websocket", codex, LISTEN)
            .limit(CODEX_ENDS)
            .skip(
                "codex ends the servers of a host that was killed after 80 s, and at times not at all",
                |_, way| way == Way::HostKilled,
            ),
        kit::over_stdio("codex-stdio", || {
            ExecutorLauncher::command(codex(), ["exec-server", "--listen", "stdio"])
        })
        .limit(CODEX_WAITS),
    ])
}
