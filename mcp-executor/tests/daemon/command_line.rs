//! The daemon's command line: help, what it refuses to start with, who may
//! connect, and what it does about an earlier run that was killed.

use std::os::unix::fs::PermissionsExt;

use tokio::net::TcpListener;

use crate::prelude::*;

/// All of its streams end at once, as when a client on a pipe is killed: its
/// log has nobody to write to, which must not keep it from its work.
#[tokio::test]
async fn a_daemon_whose_client_was_killed_ends_its_servers_and_leaves() {
    let mark = marker("killed-client");
    let mut daemon = Command::new(DAEMON)
        .arg("--stdio")
        .env("RUST_LOG", "debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = daemon.stdin.take().unwrap();
    let mut stdout = BufReader::new(daemon.stdout.take().unwrap());
    let mut answer = async |request: String| {
        stdin.write_all(request.as_bytes()).await.unwrap();
        let mut line = String::new();
        within(stdout.read_line(&mut line)).await.unwrap();
        assert!(line.contains("result"), "{line}");
    };
    answer("{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"t\"}}\n".to_owned())
        .await;
    let script = format!("trap '' TERM; while :; do sleep 0.1; done; : {mark}");
    let params = serde_json::json!({
        "processId": "p", "argv": ["/bin/sh", "-c", script], "cwd": "file:///", "env": {},
    });
    let start = serde_json::json!({"id": 2, "method": "process/start", "params": params});
    answer(format!("{{\"method\":\"initialized\"}}\n{start}\n")).await;
    assert!(!alive(&mark).is_empty());
    drop((stdin, stdout, daemon.stderr.take()));
    let status = within(daemon.wait()).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[tokio::test]
async fn help_helps() {
    let (success, text) = run(&["--help"]).await;
    assert!(success, "{text}");
    let said = [
        "--listen",
        "--stdio",
        "--token-file",
        "--tls-cert",
        "--lease",
        "--max-frame",
        "Examples:",
        "ssh host",
        "SIGTERM",
        "/readyz",
    ];
    for word in said {
        assert!(text.contains(word), "{word} is missing: {text}");
    }
}

#[tokio::test]
async fn nothing_and_nonsense_are_refused() {
    refuses(&[], "--listen").await;
    refuses(
        &["--listen", "ws://127.0.0.1:0", "--stdio"],
        "cannot be used with",
    )
    .await;
    refuses(&["--listen", "http://127.0.0.1:1"], "ws://IP:PORT").await;
    refuses(&["--listen", "unix:"], "a path").await;
    refuses(&["--stdio", "--lease", "0"], "between 0.1 and 86400").await;
    refuses(&["--stdio", "--max-processes", "0"], "--max-processes").await;
}

/// An option that would have no effect is refused, for somebody may rely on it.
#[tokio::test]
async fn what_would_be_ignored_is_refused() {
    let file = ["--token-file", "--tls-cert", "--tls-key", "--tls-client-ca"];
    for flag in file {
        refuses(&["--stdio", flag, "f"], "cannot be used with").await;
    }
    let unix = ["--listen", "unix:/tmp/never", "--token-file", "f"];
    refuses(&unix, "needs neither --token-file").await;
    let plain = ["--listen", "ws://127.0.0.1:0", "--tls-client-ca", "f"];
    refuses(&plain, "--tls-cert").await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_token() {
    refuses(&["--listen", "ws://0.0.0.0:0"], "--token-file").await;
    refuses(&["--listen", "ws://[::]:0"], "--token-file").await;
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "0123456789abcdef0123").unwrap();
    let path = token.path().to_str().unwrap();
    // With one it listens.
    listen(
        DAEMON,
        &["--listen", "ws://0.0.0.0:0", "--token-file", path],
    )
    .await;
}

#[tokio::test]
async fn a_token_that_others_can_read_or_guess_is_refused() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "0123456789abcdef0123").unwrap();
    let path = token.path().to_str().unwrap();
    let args = ["--listen", "ws://127.0.0.1:0", "--token-file", path];
    std::fs::set_permissions(token.path(), PermissionsExt::from_mode(0o644)).unwrap();
    refuses(&args, "chmod 600").await;
    std::fs::set_permissions(token.path(), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(token.path(), "short").unwrap();
    refuses(&args, "at least 16").await;
    refuses(&[&args[..3], &["/no/such/file"]].concat(), "No such file").await;
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", taken.local_addr().unwrap());
    refuses(&["--listen", &url], "is in use by another program").await;
}

/// The status line that an HTTP request is answered with.
async fn status(url: &str, head: &str) -> String {
    let address = url.trim_start_matches("ws://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_browser_is_refused_and_readiness_is_told() {
    let peer = daemon(&[]).await;
    let upgrade = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for origin in ["https://evil.example", "null", "http://127.0.0.1"] {
        let head = format!("{upgrade}Origin: {origin}\r\n\r\n");
        let answer = status(&peer.url, &head).await;
        assert!(answer.contains("403"), "{origin}: {answer}");
    }
    let answer = status(&peer.url, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.contains("200"), "{answer}");
}

/// The parent of a process.
fn parent(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_sweeps_what_a_killed_run_left() {
    // Ledgers of its own, so that no other test's daemon sweeps first.
    let runtime = tempfile::tempdir().unwrap();
    let start = || {
        let variables = format!(
            "MCP_LIFECYCLE_STATE_DIR={}",
            runtime.path().join("state").display()
        );
        let args = [&variables, DAEMON, "--listen", "ws://127.0.0.1:0"].map(str::to_owned);
        async move {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            listen("env", &args).await
        }
    };
    let mut first = start().await;
    let launcher = launcher(ExecutorLauncher::websocket(&first.url)).await;
    let mark = marker("sweep");
    // The kernel ends the server with its guardian, but not its helper.
    let script = format!(
        "setsid sh -c 'echo $PPID; while :; do sleep 0.1; done; : {mark}' & \
         while :; do sleep 0.1; done"
    );
    let mut server = launch(&launcher, sh(&script)).await;
    let pid: u32 = server.line().await.parse().unwrap();
    let daemon = first.child.id().unwrap();
    let guardian = parent(pid);
    assert_ne!(guardian, daemon, "no guardian: nothing to be swept after");
    // The guardian sleeps through the death of its host, and dies as well.
    signal(Signal::SIGSTOP, guardian);
    first.child.kill().await.unwrap();
    signal(Signal::SIGKILL, guardian);
    assert!(!alive(&mark).is_empty(), "there is nothing to sweep");
    // Swept before it says that it is ready.
    let _second = start().await;
    assert_eq!(alive(&mark), Vec::<String>::new());
}
