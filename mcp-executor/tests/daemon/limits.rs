//! Limits of one client: frames, processes, sessions, output that nobody
//! reads, input that nobody reads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_so_many_processes_and_the_place_of_one_that_ended() {
    let peer = daemon(&["--max-processes", "2"]).await;
    let one = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let another = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let first = launch(&one, sh("exec cat")).await;
    let second = launch(&one, sh("exec cat")).await;
    let spec = sh("exec cat").build().unwrap();
    let error = one.launch(&spec, &LaunchContext::new()).await.unwrap_err();
    assert!(
        matches!(error.kind(), LaunchErrorKind::Limit { .. }),
        "{error}"
    );
    // Another client has its own.
    let others = launch(&another, sh("exec cat")).await;
    others.end(&without_haste()).await.unwrap();
    first.end(&without_haste()).await.unwrap();
    let third = launch(&one, sh("exec cat")).await;
    third.end(&without_haste()).await.unwrap();
    second.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_over_the_limit_is_refused_and_costs_nobody_else_anything() {
    let peer = daemon(&["--max-frame", "1"]).await;
    let bystander = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mut server = launch(&bystander, sh("exec cat")).await;
    let mut config = ExecutorLauncher::websocket(&peer.url);
    config.call_timeout = Duration::from_secs(1);
    config.resume_window = Duration::ZERO;
    let greedy = launcher(config).await;
    let spec = sh("exec cat").env("BIG", "x".repeat(2 << 20)).build();
    let refused = within(greedy.launch(&spec.unwrap(), &LaunchContext::new())).await;
    assert!(refused.is_err(), "2 MiB passed a limit of 1 MiB");
    server.stdin.write_all(b"still here\n").await.unwrap();
    assert_eq!(server.line().await, "still here");
    server.end(&without_haste()).await.unwrap();
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_pipe_goes_on() {
    let mut daemon = tokio::process::Command::new(DAEMON)
        .args(["--stdio", "--max-frame", "1"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = daemon.stdin.take().unwrap();
    let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    let long = format!("{{\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(3 << 20));
    stdin.write_all(long.as_bytes()).await.unwrap();
    let answer = within(lines.next_line()).await.unwrap().unwrap();
    assert!(answer.contains("over the limit of 1048576"), "{answer}");
    let hello = b"{\"id\":2,\"method\":\"initialize\",\"params\":{\"clientName\":\"t\"}}\n";
    stdin.write_all(hello).await.unwrap();
    let answer = within(lines.next_line()).await.unwrap().unwrap();
    assert!(answer.contains("sessionId"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_sessions_in_all() {
    let mut limits = Limits::default();
    limits.max_sessions = 1;
    let (daemon, url) = serving(limits).await;
    let config = ExecutorLauncher::websocket(url);
    let first = within(ExecutorLauncher::connect(config.clone()))
        .await
        .unwrap();
    within(ExecutorLauncher::connect(config.clone()))
        .await
        .unwrap_err();
    // Its place is free again.
    drop(first);
    within(async {
        while ExecutorLauncher::connect(config.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    daemon.shutdown().await;
}

/// Bytes that a process has written since it was started.
fn written_by(pid: &str) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

/// Bytes that a process has written when it writes no more: twice the same.
async fn stuck(pid: &str) -> u64 {
    let mut last = 0;
    within(async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let written = written_by(pid);
            if written == last {
                return written;
            }
            last = written;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_nobody_reads_holds_its_server_back() {
    let peer = daemon(&[]).await;
    let mut config = ExecutorLauncher::websocket(&peer.url);
    config.window = 128 << 10;
    let launcher = launcher(config).await;
    let mut server = launch(&launcher, sh("echo $$; exec cat /dev/zero")).await;
    let pid = server.line().await;
    let stuck = stuck(&pid).await;
    // The window, what the reader's buffer took, and what the pipe holds: Linux
    // gives a pipe a mebibyte at most.
    assert!(stuck < 1536 << 10, "{stuck} bytes");
    server.end(&at_once()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_nobody_reads_holds_its_writer_back() {
    let peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mut server = launch(&launcher, sh("echo up; exec sleep 1000")).await;
    assert_eq!(server.line().await, "up");
    let Server { stdin, .. } = &mut server;
    let mut taken = 0;
    let chunk = vec![b'x'; 64 << 10];
    // Held back is what takes nothing more; before, the daemon is busy.
    let pause = |taken| Duration::from_secs(if taken > 256 << 10 { 1 } else { 40 });
    while let Ok(written) = tokio::time::timeout(pause(taken), stdin.write(&chunk)).await {
        taken += written.unwrap();
        assert!(taken < 16 << 20, "{taken} bytes and no end");
    }
    assert!(taken > 256 << 10, "{taken} bytes");
    server.end(&at_once()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_processes_of_all_clients() {
    let mut limits = Limits::default();
    limits.max_processes_in_all = 2;
    let (daemon, url) = serving(limits).await;
    let config = ExecutorLauncher::websocket(url);
    let one = launcher(config.clone()).await;
    let other = launcher(config).await;
    let first = launch(&one, sh("exec cat")).await;
    let second = launch(&other, sh("exec cat")).await;
    let spec = sh("exec cat").build().unwrap();
    let error = other
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), LaunchErrorKind::Limit { .. }),
        "{error}"
    );
    // The place of one that has ended is free.
    first.end(&without_haste()).await.unwrap();
    let third = launch(&other, sh("exec cat")).await;
    third.end(&without_haste()).await.unwrap();
    second.end(&without_haste()).await.unwrap();
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_start_is_the_first_one_however_little_is_left() {
    let mut limits = Limits::default();
    (limits.max_processes_in_all, limits.max_memory) = (1, 0);
    let (daemon, url) = serving(limits).await;
    let (mut client, again) = Raw::open_to_resume(&url).await;
    let first = start("p", &["/bin/cat"]);
    client
        .request("process/start", first.clone())
        .await
        .unwrap();
    drop(client);
    let (mut client, _) = Raw::open_with(&url, again).await;
    // No place is left, and for the second no memory either.
    let mut large = first.clone();
    large["env"]["BIG"] = "x".repeat(100 << 10).into();
    for again in [first, large] {
        let error = client.request("process/start", again).await.unwrap_err();
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("already exists"), "{error}");
    }
    daemon.shutdown().await;
}

/// The bytes of an output notification.
fn bytes(output: &Value) -> Vec<u8> {
    BASE64.decode(output["chunk"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plain_client_might_read_again_is_given_up_for_what_it_needs() {
    let mut limits = Limits::default();
    limits.max_memory = 1 << 20;
    let (daemon, url) = serving(limits).await;
    let (mut plain, _) = Raw::open(&url).await;
    let script = "head -c 500000 /dev/zero; read line; echo \"got $line\"; exec sleep 1000";
    let params = start("p", &["/bin/sh", "-c", script]);
    plain.request("process/start", params).await.unwrap();
    let mut received = 0;
    while received < 500_000 {
        received += bytes(&plain.notification("process/output").await).len();
    }
    // Another one fills what is left.
    let hello = json!({"clientName": "raw",
        "extensions": {"mcpLifecycle": {"version": 1, "window": 1 << 20}}});
    let (mut greedy, _) = Raw::open_with(&url, hello).await;
    let params = start("q", &["/bin/sh", "-c", "echo $$; exec cat /dev/zero"]);
    greedy.request("process/start", params).await.unwrap();
    let first = bytes(&greedy.notification("process/output").await);
    let pid = String::from_utf8_lossy(&first);
    stuck(pid.lines().next().unwrap()).await;

    let params = json!({"processId": "p", "chunk": BASE64.encode("it\n"), "writeId": "w"});
    let written = plain.request("process/write", params).await.unwrap();
    assert_eq!(written["status"], "accepted");
    let answer = bytes(&plain.notification("process/output").await);
    assert_eq!(answer, b"got it\n");
    let params = start("other", &["/bin/echo", "here"]);
    plain.request("process/start", params).await.unwrap();
    let answer = bytes(&plain.notification("process/output").await);
    assert_eq!(answer, b"here\n");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_arrives_whole_however_little_memory_there_is() {
    let mut limits = Limits::default();
    limits.max_memory = 0;
    let (daemon, url) = serving(limits).await;
    let config = ExecutorLauncher::websocket(url);
    let launcher = launcher(config).await;
    // It takes its time to read.
    let mut server = launch(&launcher, sh("sleep 1; exec cksum")).await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    within(server.stdin.write_all(&data)).await.unwrap();
    within(server.stdin.shutdown()).await.unwrap();
    let mut expected = std::process::Command::new("cksum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut expected.stdin.take().unwrap(), &data).unwrap();
    let expected = expected.wait_with_output().unwrap().stdout;
    assert_eq!(server.line().await.as_bytes(), expected.trim_ascii());
    server.end(&without_haste()).await.unwrap();
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_clock_for_all_that_comes_before_a_session() {
    let mut limits = Limits::default();
    limits.handshake = Duration::from_secs(16);
    let (daemon, url) = serving(limits).await;
    let address = url.trim_start_matches("ws://");
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let begun = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let mut raw = Raw::over(&url, stream).await;
    assert_eq!(raw.closed().await, Some(1008));
    assert!(
        begun.elapsed() < Duration::from_secs(22),
        "{:?}",
        begun.elapsed()
    );
    daemon.shutdown().await;
}

/// However small the daemon's own is.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_s_window_has_a_least_size() {
    let mut limits = Limits::default();
    limits.window = 512;
    let (daemon, url) = serving(limits).await;
    for asked in [json!(null), json!(0), json!(u64::MAX)] {
        let wish = json!({"mcpLifecycle": {"version": 1, "window": asked}});
        let hello = json!({"clientName": "x", "extensions": wish});
        let (_client, hello) = Raw::open_with(&url, hello).await;
        assert_eq!(hello["extensions"]["mcpLifecycle"]["window"], 4096);
    }
    daemon.shutdown().await;
}
