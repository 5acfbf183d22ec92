//! The conformance kit: our client with our daemon, the real binary, over
//! WebSocket and over its standard streams.

#[path = "support/kit.rs"]
mod kit;
mod support;

use kit::Pair;
use mcp_launcher_executor::ExecServerConfig;
use support::{DAEMON, listen};

/// What a killed host leaves lives as long as its lease.
const LEASE: &str = "2";

fn over_stdio() -> ExecServerConfig {
    ExecServerConfig::command(DAEMON, ["--stdio"])
}

fn websocket(part: usize) {
    let pair = async || {
        let peer = listen(DAEMON, &["--listen", "ws://127.0.0.1:0", "--lease", LEASE]).await;
        Pair {
            config: ExecServerConfig::websocket(&peer.url),
            host: kit::host("websocket_host", &peer.url),
            peer: Some(peer),
        }
    };
    kit::conformance(pair, kit::part(part));
}

fn stdio(part: usize) {
    let pair = async || Pair {
        config: over_stdio(),
        host: kit::host("stdio_host", ""),
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
    kit::run_if_asked(|_| over_stdio()).await;
}
