//! The progress of a call goes to whoever made that call.

use std::sync::{Arc, Mutex};

use mcp_lifecycle_core::LifecyclePeer;
use mcp_lifecycle_core::client::{CallOptions, LifecycleClient};
use rmcp::model::CallToolRequestParams;
use serde_json::json;

use crate::fake::Fake;

async fn steps(peer: LifecyclePeer, steps: u64) -> Vec<f64> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let follow = Arc::clone(&seen);
    let options = CallOptions::new().progress(move |progress| {
        follow.lock().unwrap().push(progress.progress);
        assert_ne!(progress.progress, 2.0, "a fault in a follower");
    });
    let arguments = json!({"steps": steps, "ms": 10}).as_object().cloned();
    let params = CallToolRequestParams::new("wait").with_arguments(arguments.unwrap());
    peer.call_tool_with(params, &options).await.unwrap();
    seen.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn two_calls_at_a_time_each_see_their_own_progress() {
    let client = LifecycleClient::start(Fake::new().config("s", &[])).await;
    let client = client.unwrap();
    let (few, many) = tokio::join!(
        steps(client.peer().clone(), 2),
        // One that panics loses nothing but itself.
        steps(client.peer().clone(), 4)
    );
    assert_eq!(few, [0.0, 1.0]);
    assert_eq!(many, [0.0, 1.0, 2.0, 3.0]);
}
