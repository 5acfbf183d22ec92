//! Retention: the things that a daemon keeps of a process that has ended, and for whom.

use crate::prelude::*;

/// Far shorter than the tests are.
const RETENTION: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn output_is_kept_for_a_client_of_ours_until_it_is_read() {
    // More than a window, and no more than a pipe holds beside it.
    const OUTPUT: usize = 300_000;
    let mut limits = Limits::default();
    limits.retention = RETENTION;
    let (_daemon, url) = serving(limits).await;
    let launcher = launcher(ExecutorLauncher::websocket(url)).await;
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
