//! What a daemon keeps of a process that has ended, and for whom.

mod support;

use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_executor::ExecServerConfig;
use mcp_launcher_executor::daemon::{Daemon, Limits, Listener};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use support::{launcher, sh, within};
use tokio::io::AsyncReadExt;

/// Far shorter than the tests are.
const RETENTION: Duration = Duration::from_millis(50);

/// A daemon of this process that forgets early.
async fn forgetful() -> String {
    let mut limits = Limits::default();
    limits.retention = RETENTION;
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), limits);
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(address, None, None).await.unwrap();
    let url = listener.url().unwrap();
    tokio::spawn(async move { listener.serve(&daemon).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_kept_for_a_client_of_ours_until_it_is_read() {
    // More than a window, and no more than a pipe holds beside it.
    const OUTPUT: usize = 300_000;
    let launcher = launcher(ExecServerConfig::websocket(forgetful().await)).await;
    let script = format!("exec head -c {OUTPUT} /dev/zero");
    let launched = launcher
        .launch(&sh(&script).build().unwrap(), &LaunchContext::new())
        .await;
    let mut parts = launched.unwrap().into_parts();
    within(parts.terminator.gone()).await.unwrap();
    tokio::time::sleep(RETENTION * 10).await;
    let mut output = Vec::new();
    within(parts.stdout.read_to_end(&mut output)).await.unwrap();
    assert_eq!(output.len(), OUTPUT, "the rest was forgotten");
}
