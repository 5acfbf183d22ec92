//! The daemon as a service: what it tells its service manager, its limits, and
//! the files that come with it.

use mcp_lifecycle_core::launch::InheritEnv;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::UnixDatagram;

use crate::prelude::*;

/// Receives until a message has this line.
async fn told(manager: &UnixDatagram, line: &str) {
    let mut buffer = [0; 4096];
    loop {
        let length = within(manager.recv(&mut buffer)).await.unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]);
        if text.lines().any(|said| said == line) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_is_told_and_servers_do_not_know_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(DAEMON);
    command
        .args(["--listen", "ws://127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "300000");
    let Peer {
        child: mut daemon,
        url,
    } = started(&mut command).await;
    told(&manager, "READY=1").await;
    for _ in 0..3 {
        told(&manager, "WATCHDOG=1").await;
    }
    let launcher = launcher(ExecutorLauncher::websocket(&url)).await;
    let spec = sh("env; echo end; exec cat").inherit_env(InheritEnv::All);
    let mut server = launch(&launcher, spec).await;
    let mut seen = Vec::new();
    loop {
        match server.line().await.as_str() {
            "end" => break,
            line => seen.push(line.to_owned()),
        }
    }
    assert!(
        seen.iter().any(|line| line.starts_with("PATH=")),
        "{seen:?}"
    );
    let known = |line: &&String| line.starts_with("NOTIFY_") || line.starts_with("WATCHDOG_");
    assert_eq!(seen.iter().find(known), None);
    server.end(&without_haste()).await.unwrap();
    signal(Signal::SIGTERM, daemon.id().unwrap());
    told(&manager, "STOPPING=1").await;
    assert!(within(daemon.wait()).await.unwrap().success());
}

#[tokio::test]
async fn the_limit_of_descriptors_is_raised() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let script = "ulimit -S -n 256; exec \"$0\" --listen ws://127.0.0.1:0";
    let daemon = listen("/bin/sh", &["-c", script, DAEMON]).await;
    let limits = format!("/proc/{}/limits", daemon.child.id().unwrap());
    let limits = std::fs::read_to_string(limits).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(soft, hard.min(524_288));
}

/// The unit's command is started here, with its directory and its manager.
#[tokio::test]
async fn the_unit_starts_what_there_is() {
    const UNIT: &str = include_str!("../../contrib/mcp-executor.service");
    let line = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let runtime = tempfile::tempdir().unwrap();
    std::fs::create_dir(runtime.path().join("mcp-executor")).unwrap();
    let line = line
        .unwrap()
        .replace("%t", runtime.path().to_str().unwrap());
    let mut words = line.split(' ');
    assert!(words.next().unwrap().ends_with("/mcp-executor"));
    let path = runtime.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut daemon = Command::new(DAEMON)
        .args(words)
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    told(&manager, "READY=1").await;
    assert!(runtime.path().join("mcp-executor/socket").exists());
    daemon.kill().await.unwrap();
}

/// Makes the daemon write more lines than a pipe holds and wait for its reader.
async fn knock(url: &str) {
    let address = url.trim_start_matches("ws://");
    for _ in 0..3500 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"HELO\r\n\r\n").await.unwrap();
        // It is sent away, and the log has a line.
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_costs_no_client_anything_and_says_what_it_lost() {
    let mut command = Command::new(DAEMON);
    command
        .args(["--listen", "ws://127.0.0.1:0"])
        .env("RUST_LOG", "debug");
    let Peer {
        child: mut daemon,
        url,
    } = started(command.stderr(Stdio::piped())).await;
    knock(&url).await;
    let launcher = launcher(ExecutorLauncher::websocket(&url)).await;
    let server = launch(&launcher, sh("exec cat")).await;
    let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
    // Read now, it goes on, with the number of those that were lost.
    let told = async {
        while let Some(line) = log.next_line().await.unwrap() {
            if line.contains("lines of this log were lost") {
                return;
            }
        }
        panic!("nothing was lost");
    };
    within(async { tokio::join!(told, knock(&url)) }).await;
    // Nobody reads it again, and it ends all the same.
    knock(&url).await;
    server.end(&without_haste()).await.unwrap();
    signal(Signal::SIGTERM, daemon.id().unwrap());
    assert_eq!(within(daemon.wait()).await.unwrap().code(), Some(0));
}
