//! The log: who started what from where, no secret, and no flood.

use crate::prelude::*;

const TOKEN: &str = "a-token-that-is-a-secret";

/// A daemon whose log is kept.
async fn daemon(args: &[&str]) -> Peer {
    let mut command = Command::new(DAEMON);
    command
        .env("MCP_EXECUTOR_TOKEN", TOKEN)
        .env_remove("RUST_LOG");
    keeping_its_log(command.args(args)).await
}

/// As [`daemon`], of which every word is kept, and without a token.
async fn loopback(args: &[&str]) -> Peer {
    let mut command = Command::new(DAEMON);
    command.args(["--listen", "ws://127.0.0.1:0"]).args(args);
    command.env("RUST_LOG", "mcp_executor=debug,audit=info");
    keeping_its_log(&mut command).await
}

async fn keeping_its_log(command: &mut Command) -> Peer {
    started(command.stderr(Stdio::piped())).await
}

/// Ends the daemon; its log.
async fn log(mut peer: Peer) -> Vec<String> {
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    let mut text = String::new();
    let mut stderr = peer.child.stderr.take().unwrap();
    within(stderr.read_to_string(&mut text)).await.unwrap();
    within(peer.child.wait()).await.unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The one line with all of these words.
fn the<'a>(log: &'a [String], words: &[&str]) -> &'a str {
    let mut found = log.iter().filter(|l| words.iter().all(|w| l.contains(w)));
    let line = found.next();
    let line = line.unwrap_or_else(|| panic!("no line has {words:?}: {log:#?}"));
    assert!(
        found.next().is_none(),
        "more than one has {words:?}: {log:#?}"
    );
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn who_started_what_from_where_and_no_secret() {
    let peer = daemon(&["--listen", "ws://127.0.0.1:0"]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url).token(TOKEN)).await;
    let spec = sh("exec cat # SECRET-ARGUMENT").env("KEY", "SECRET-VALUE");
    let server = launch(&launcher, spec).await;
    server.end(&without_haste()).await.unwrap();
    let missing = ServerSpec::builder("test", "/no/such/program")
        .args(["SECRET-ARGUMENT"])
        .cwd("/")
        .build()
        .unwrap();
    launcher
        .launch(&missing, &LaunchContext::new())
        .await
        .unwrap_err();
    drop((server, launcher));

    let log = log(peer).await;
    let of = |words: &[&str]| the(&log, &[&[" audit: "], words].concat()).to_owned();
    let attached = of(&["client attached"]);
    assert!(attached.contains("peer=\"127.0.0.1:"), "{attached}");
    let started = of(&["process started", "program=\"/bin/sh\""]);
    for word in [
        "peer=\"127.0.0.1:",
        "client=\"mcp-lifecycle\"",
        "identity=pid ",
    ] {
        assert!(started.contains(word), "{started}");
    }
    of(&["process ended", "program=\"/bin/sh\"", "proven=true"]);
    of(&["process not started", "program=\"/no/such/program\""]);
    of(&["session over"]);
    for secret in ["SECRET", TOKEN] {
        let said = log.iter().find(|line| line.contains(secret));
        assert!(said.is_none(), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_one_line_and_readiness_is_none() {
    let peer = daemon(&["--listen", "ws://127.0.0.1:0"]).await;
    let address = peer.url.trim_start_matches("ws://").to_owned();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
        // A look whether somebody listens.
        drop(TcpStream::connect(&address).await.unwrap());
    }
    for _ in 0..50 {
        let wrong = ExecutorLauncher::websocket(&peer.url).token("another-wrong-token");
        within(ExecutorLauncher::connect(wrong)).await.unwrap_err();
    }
    let log = log(peer).await;
    let refused = the(&log, &["refused"]);
    assert!(
        refused.contains("127.0.0.1") && refused.contains("a bearer token"),
        "{refused}"
    );
    assert!(log.len() < 5, "{log:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_refused_at_once_is_told_of_as_well() {
    let peer = loopback(&["--max-processes", "1"]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    let first = start("first", &["/bin/cat"]);
    client
        .request("process/start", first.clone())
        .await
        .unwrap();
    let repeated = client.request("process/start", first).await.unwrap_err();
    assert_eq!(repeated["code"], -32600, "{repeated}");
    let mut restricted = start("restricted", &["/bin/cat"]);
    restricted["readOnly"] = json!(true);
    for params in [start("second", &["/bin/cat"]), restricted] {
        client.request("process/start", params).await.unwrap_err();
    }
    drop(client);
    let log = log(peer).await;
    let refused = |process: &str| the(&log, &["process not started", process]).to_owned();
    assert!(refused("\"second\"").contains("why=\"limit\""));
    assert!(refused("\"restricted\"").contains("why=\"invalid\""));
    let mut first = log.iter().filter(|line| line.contains("\"first\""));
    assert!(first.all(|line| !line.contains("not started")), "{log:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_leave_the_door_is_named_once_and_not_who_came() {
    let mut peer = loopback(&[]).await;
    let address = peer.url.trim_start_matches("ws://").to_owned();
    // One more than may wait of one address.
    let mut first = Raw::connect(&peer.url).await;
    let local = first.socket.get_ref().local_addr().unwrap();
    let mut others = Vec::new();
    for _ in 0..32 {
        others.push(TcpStream::connect(&address).await.unwrap());
    }
    assert_eq!(first.closed().await, Some(1013));
    let mut stderr = BufReader::new(peer.child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("a connection was refused") {
        let read = within(stderr.read_line(&mut text)).await.unwrap();
        assert!(read > 0, "{text}");
    }
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    within(stderr.read_to_string(&mut text)).await.unwrap();
    let log: Vec<_> = text.lines().collect();
    let refused = log
        .iter()
        .filter(|line| line.contains("a connection was refused"));
    let refused: Vec<_> = refused.collect();
    assert!(
        matches!(refused[..], [line] if line.contains(&local.to_string())),
        "{log:#?}"
    );
}
