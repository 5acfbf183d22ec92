//! A server that closes its input, and lives.

use mcp_lifecycle_core::client::{CallErrorKind, LifecycleClient, ServerConfig};
use rmcp::model::CallToolRequestParams;

use crate::prelude::*;

/// An MCP server that answers one call, with its input closed.
const DEAF: &str = r#"
answer() { echo '{"jsonrpc":"2.0","id":'"$id,$1"'}'; }
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
        *'"initialize"'*)
            answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}' ;;
        *'"tools/call"'*)
            exec <&-
            answer '"result":{"content":[]}'
            exec sleep 1000 ;;
        *'"id":'*) answer '"error":{"code":-32601,"message":"no"}' ;;
    esac
done"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_into_a_closed_input_fails_at_once() {
    let peer = daemon(&[]).await;
    for config in [
        ExecutorLauncher::websocket(&peer.url),
        ExecutorLauncher::command(DAEMON, ["--stdio"]),
    ] {
        let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher(config).await);
        let config = ServerConfig::new(launcher, sh(DEAF).build().unwrap()).termination(at_once());
        let client = LifecycleClient::start(config).await.unwrap();
        let call = || client.call_tool(CallToolRequestParams::new("any"));
        within(call()).await.unwrap();
        let error = within(call()).await.unwrap_err();
        let closed = matches!(error.kind(), CallErrorKind::InputClosed);
        assert!(closed, "{error:?}");
        let report = within(client.ended()).await.unwrap();
        assert_eq!(report.reason, EndReason::InputClosed);
    }
}

/// As codex's client sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_is_refused_the_write_that_is_not_read() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    let deaf = start(
        "p",
        &["/bin/sh", "-c", "exec <&-; echo up; exec sleep 1000"],
    );
    client.request("process/start", deaf).await.unwrap();
    client.notification("process/output").await;
    let write = json!({"processId": "p", "chunk": "eA==", "writeId": "w"});
    let answer = client.request("process/write", write).await.unwrap();
    assert_eq!(answer["status"], "stdinClosed");
}
