//! The daemon's numbers.

use std::collections::HashMap;

use crate::prelude::*;

/// The answer of an HTTP server to `GET path`.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// The numbers by name; every line is one, or says its type.
async fn numbers(address: &str) -> HashMap<String, u64> {
    let answer = get(address, "/metrics").await;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut numbers = HashMap::new();
    let mut kind = None;
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            kind = typed.split_once(' ');
            continue;
        }
        let Some((name, number)) = line
            .strip_prefix("mcp_executor_")
            .and_then(|it| it.split_once(' '))
        else {
            assert_eq!(line, "# EOF");
            continue;
        };
        let (_, kind) = kind.take().unwrap();
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        numbers.insert(name.to_owned(), number.parse().unwrap());
    }
    numbers
}

/// A daemon with a token and two processes for a session, and the address of its metrics.
async fn measured() -> (Peer, String) {
    let mut command = Command::new(DAEMON);
    command
        .args(["--listen", "ws://127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .args(["--max-processes", "2"])
        .env("MCP_EXECUTOR_TOKEN", "a-token-that-is-right")
        .env_remove("RUST_LOG");
    let mut daemon = started(command.stderr(Stdio::piped())).await;
    let mut lines = BufReader::new(daemon.child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = within(lines.next_line()).await.unwrap().unwrap();
        if let Some((_, url)) = line.split_once("http://") {
            break url.split('/').next().unwrap().to_owned();
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (daemon, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_requests_keep_no_scrape_out() {
    let (_daemon, address) = measured().await;
    let mut half = Vec::new();
    for _ in 0..138 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        // The listener may have closed it already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await;
        half.push(stream);
    }
    let scrape = tokio::time::timeout(Duration::from_secs(20), numbers(&address));
    assert!(
        scrape.await.is_ok(),
        "no answer beside {} half requests",
        half.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_are_what_happened() {
    let (daemon, address) = measured().await;
    let config = ExecutorLauncher::websocket(&daemon.url);

    let before = numbers(&address).await;
    let names = ["connections", "sessions", "processes"];
    assert_eq!(names.map(|name| before[name]), [0, 0, 0]);
    assert_eq!(before["processes_per_session_limit"], 2);
    within(ExecutorLauncher::connect(config.clone()))
        .await
        .unwrap_err();
    let launcher = launcher(config.token("a-token-that-is-right")).await;
    // Its output waits in the daemon, for nobody reads it.
    let mut server = launch(&launcher, sh("head -c 200000 /dev/zero; exec cat")).await;
    server.stdout.fill_buf().await.unwrap();
    let missing = ServerSpec::builder("x", "/no/such").cwd("/").build();
    launcher
        .launch(&missing.unwrap(), &LaunchContext::new())
        .await
        .unwrap_err();
    let during = numbers(&address).await;
    assert_eq!(names.map(|name| during[name]), [1, 1, 1], "{during:?}");
    assert_eq!(during["connections_refused_total"], 1);
    assert_eq!(during["processes_refused_total"], 1);
    let filled = during["memory_bytes"];
    assert!(
        filled > 10_000 && filled < during["memory_limit_bytes"],
        "{during:?}"
    );
    assert!(during["received_bytes_total"] > 100 && during["sent_bytes_total"] > 100);
    server.end(&without_haste()).await.unwrap();
    let after = numbers(&address).await;
    assert_eq!(after["processes"], 0);
    // It is told a moment later that its client has everything.
    within(async {
        while numbers(&address).await["memory_bytes"] > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    let totals =
        ["started", "gone", "unproven"].map(|what| after[&format!("processes_{what}_total")]);
    assert_eq!(totals, [1, 1, 0]);

    assert!(get(&address, "/").await.contains("404"));
    // A client that says nothing keeps nobody out.
    let _silent: Vec<_> = within(async {
        let mut silent = Vec::new();
        for _ in 0..4 {
            silent.push(TcpStream::connect(&address).await.unwrap());
        }
        silent
    })
    .await;
    numbers(&address).await;
}

#[tokio::test]
async fn metrics_are_for_this_machine_only() {
    let args = ["--listen", "ws://127.0.0.1:0", "--metrics", "0.0.0.0:0"];
    refuses(&args, "loopback only").await;
}
