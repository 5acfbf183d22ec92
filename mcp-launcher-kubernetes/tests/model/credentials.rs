//! Credentials that do not hold any more while a server runs.

use std::time::Duration;

use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
use serde_json::json;

use crate::{LIMIT, Model, V5, launch};

/// An end within its limits says why, and of which pod; what holds the pod stays, and the next end
/// finds the proof.
#[tokio::test]
async fn an_end_without_credentials_is_an_error_until_they_hold_again() {
    let model = Model::start(V5);
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken");
    // Asked anew for each request.
    let status = json!({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"});
    let answer = json!({"kind": "ExecCredential", "status": status});
    let script = format!(
        "test -e {} && {{ echo not today >&2; exit 3; }}; echo '{answer}'",
        broken.display()
    );
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "interactiveMode": "Never"});
    model.user(&json!({"exec": exec}));
    let server = launch(&model.launcher()).await;
    std::fs::write(&broken, "").unwrap();
    let short = TerminationPolicy::new().kill_confirmation(Duration::from_secs(2));
    let ended = server.handle.terminate(&short, EndReason::Shutdown);
    let ended = tokio::time::timeout(LIMIT, ended)
        .await
        .expect("an end in time");
    let text = ended.unwrap_err().to_string();
    for word in [
        "pod mcp-server-",
        "uid uid-",
        "credentials do not hold",
        "exit status: 3",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    std::fs::remove_file(&broken).unwrap();
    server.end().await;
    assert_eq!(model.counts().objects["pods"], 0);
}
