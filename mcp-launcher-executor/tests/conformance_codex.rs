//! The conformance kit: our client with the real `codex exec-server`, over
//! WebSocket and over its standard streams. What differs there is declared.

#[path = "support/kit.rs"]
mod kit;
mod support;

use std::time::Duration;

use kit::Pair;
use mcp_launcher_executor::ExecServerConfig;
use mcp_lifecycle_conformance::Way;
use support::{codex, listen};

/// Longer than codex keeps the processes of a client that is gone: 80 s were
/// measured with 0.169.
const CODEX_WAITS: Duration = Duration::from_secs(120);

fn over_stdio(codex: &str) -> ExecServerConfig {
    ExecServerConfig::command(codex, ["exec-server", "--listen", "stdio"])
}

async fn listening(codex: String) -> Pair {
    let peer = listen(&codex, &["exec-server", "--listen", "ws://127.0.0.1:0"]).await;
    Pair {
        config: ExecServerConfig::websocket(&peer.url),
        host: kit::host("websocket_host", &peer.url),
        peer: Some(peer),
    }
}

/// All but the death of hosts: there each cell takes as long as codex waits
/// for a client to come back.
fn websocket(part: usize) {
    let codex = codex();
    kit::conformance(
        async || listening(codex).await,
        |kit| {
            let ways = Way::ALL.iter().filter(|way| **way != Way::HostKilled);
            kit::part(part)(kit).ways(ways.copied())
        },
    );
}

#[test]
fn websocket_s_dead_hosts() {
    let codex = codex();
    kit::conformance(
        async || listening(codex).await,
        |kit| {
            kit.fixtures(["setsid"])
                .ways([Way::HostKilled])
                .limit(CODEX_WAITS)
                .without_experiments()
        },
    );
}

fn stdio(part: usize) {
    let codex = codex();
    let pair = async || Pair {
        config: over_stdio(&codex),
        host: kit::host("stdio_host", &codex),
        peer: None,
    };
    kit::conformance(pair, kit::part(part));
}

kit::parts! { websocket: websocket_0 0, websocket_1 1, websocket_2 2, websocket_3 3, }
kit::parts! { stdio: stdio_0 0, stdio_1 1, stdio_2 2, stdio_3 3, }

/// The hosts that the kit kills.
#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn websocket_host() {
    kit::run_if_asked(ExecServerConfig::websocket).await;
}

#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn stdio_host() {
    kit::run_if_asked(|codex| over_stdio(&codex)).await;
}
