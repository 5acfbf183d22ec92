//! Servers that nobody here wrote, from their registries.
//!
//! `.ci/run` and the test command of the README install them. Where they are
//! missing the tests fail; `MCP_LIFECYCLE_SKIP_REAL_SERVERS=1` skips them, and
//! says so.

use std::path::PathBuf;

use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::ServerSpec;
use serde_json::json;

use crate::support::{self, chain, launcher, test, text, tool};

fn skipped(name: &str) -> bool {
    let skip = std::env::var_os("MCP_LIFECYCLE_SKIP_REAL_SERVERS").is_some();
    if skip {
        eprintln!("SKIPPED {name}: MCP_LIFECYCLE_SKIP_REAL_SERVERS is set");
    }
    skip
}

/// Where the test command installs what comes from registries. Links stay what
/// they are: they are what makes a Python environment of a directory.
fn installed(path: &str) -> PathBuf {
    let home = std::env::var_os("MCP_LIFECYCLE_TEST_TOOLS").map(PathBuf::from);
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-tools");
    let path = home.unwrap_or_else(default).join(path);
    assert!(
        path.exists(),
        "{} is missing; run tests/setup",
        path.display()
    );
    path
}

async fn start(spec: ServerSpec) -> LifecycleClient {
    let config = ServerConfig::new(launcher(), spec)
        .termination(support::short())
        .startup_timeout(support::LIMIT * 4);
    let started = LifecycleClient::start(config).await;
    started.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

#[test]
fn server_everything_through_npx() {
    if skipped("server_everything_through_npx") {
        return;
    }
    test("server-everything", async |_| {
        let spec = ServerSpec::builder("everything", "npx")
            .args(["--no-install", "mcp-server-everything"])
            .cwd(installed("npm"))
            .build()
            .unwrap();
        let client = start(spec).await;
        let tools = client.list_all_tools().await.unwrap();
        assert!(tools.iter().any(|t| t.name == "echo"), "{tools:?}");
        let answer = client
            .call_tool(tool("echo", json!({"message": "hi"})))
            .await;
        assert!(text(&answer.unwrap()).contains("hi"));
        let report = client.shutdown().await.unwrap();
        assert_eq!(report.gone.reported.len(), 0, "{report}");
    });
}

#[test]
fn server_time_through_python() {
    if skipped("server_time_through_python") {
        return;
    }
    test("server-time", async |_| {
        let spec = ServerSpec::builder("time", installed("python/bin/python3"))
            .args(["-m", "mcp_server_time"])
            .build()
            .unwrap();
        let client = start(spec).await;
        let arguments = json!({"timezone": "Europe/Paris"});
        let answer = client.call_tool(tool("get_current_time", arguments)).await;
        assert!(text(&answer.unwrap()).contains("Europe/Paris"));
        client.shutdown().await.unwrap();
    });
}
