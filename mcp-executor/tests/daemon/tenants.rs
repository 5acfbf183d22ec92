//! Several tokens: the clients of each have quotas of their own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mcp_executor::Token;
use mcp_launcher_local::LocalLauncher;

use crate::prelude::*;

const ONE: &str = "the-token-of-one-client";
const OTHER: &str = "the-token-of-the-other";

fn file(directory: &Path, name: &str, token: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, token).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// Why a launcher starts nothing.
async fn refusal(launcher: &ExecutorLauncher) -> String {
    let spec = sh("exec cat").build().unwrap();
    let refused = within(launcher.launch(&spec, &LaunchContext::new())).await;
    mcp_lifecycle_core::launch::ErrorChain(&refused.unwrap_err()).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_one_token_leave_room_to_those_of_another() {
    let mut limits = Limits::default();
    (limits.max_sessions, limits.max_processes_in_all) = (4, 4);
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), limits);
    let directory = tempfile::tempdir().unwrap();
    let tokens = [("one", ONE), ("other", OTHER)]
        .map(|(name, token)| Token::from_file(&file(directory.path(), name, token)).unwrap());
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(address, tokens, None).await.unwrap();
    let config = ExecutorLauncher::websocket(listener.url().unwrap());
    let serving = tokio::spawn({
        let daemon = daemon.clone();
        async move { listener.serve(&daemon).await }
    });
    let stranger = config.clone().token("a-token-of-nobody-at-all");
    within(ExecutorLauncher::connect(stranger))
        .await
        .unwrap_err();

    // Over two sessions, of which there are no more.
    let one = config.clone().token(ONE);
    let (first, second) = (launcher(one.clone()).await, launcher(one.clone()).await);
    let error = within(ExecutorLauncher::connect(one)).await.unwrap_err();
    let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    assert!(text.contains("2 sessions of this token"), "{text}");
    let mut greedy = launch(&first, sh("exec cat /dev/zero")).await;
    let server = launch(&second, sh("exec cat")).await;
    let text = refusal(&second).await;
    assert!(text.contains("2 processes of this token"), "{text}");
    greedy.stdout.fill_buf().await.unwrap();

    let other = launcher(config.token(OTHER)).await;
    let mut untouched = launch(&other, sh("echo up; exec cat")).await;
    assert_eq!(untouched.line().await, "up");

    // A place comes back with the proof.
    server.end(&without_haste()).await.unwrap();
    let again = within(async {
        loop {
            let spec = sh("exec cat").build().unwrap();
            match second.launch(&spec, &LaunchContext::new()).await {
                Ok(server) => break server,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    drop(again);
    greedy.end(&at_once()).await.unwrap();
    untouched.end(&without_haste()).await.unwrap();
    drop((first, second, other));
    within(daemon.shutdown()).await;
    within(serving).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_several_files_open_and_are_in_no_metric() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, token: &str| {
        let path = file(directory.path(), name, token);
        path.to_str().unwrap().to_owned()
    };
    let (one, other) = (file("one", ONE), file("other", OTHER));
    // A port that is free, for it is not told.
    let metrics = {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let args = ["--listen", "ws://127.0.0.1:0", "--metrics", &metrics];
    let tokens = ["--token-file", &one, "--token-file", &other];
    let peer = listen(DAEMON, &[args, tokens].concat()).await;
    let config = ExecutorLauncher::websocket(&peer.url);
    let stranger = config.clone().token("a-token-of-nobody-at-all");
    within(ExecutorLauncher::connect(stranger))
        .await
        .unwrap_err();
    let mut launchers = Vec::new();
    for token in [ONE, OTHER] {
        launchers.push(launcher(config.clone().token(token)).await);
    }
    let mut stream = tokio::net::TcpStream::connect(&metrics).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    within(stream.read_to_string(&mut text)).await.unwrap();
    assert!(text.contains("mcp_executor_sessions 2\n"), "{text}");
    assert!(!text.contains(ONE) && !text.contains(OTHER), "{text}");
}
