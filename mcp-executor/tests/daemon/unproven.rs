//! An end that cannot be proven: the daemon says so to everybody, and nobody takes
//! its good-bye, or its not knowing the session any more, for a proof.

use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::sys::ptrace;
use nix::unistd::Pid;
use tokio::net::TcpListener;

use crate::prelude::*;

/// A debugger, as far as its process is concerned: one that dies stays a zombie
/// that nobody else can reap, until this is dropped.
struct Tracer {
    thread: Option<JoinHandle<()>>,
    release: Option<mpsc::Sender<()>>,
}

impl Tracer {
    fn of(pid: i32) -> Self {
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let seized = ptrace::seize(Pid::from_raw(pid), ptrace::Options::empty());
            tell.send(seized).unwrap();
            // The kernel lets go with the end of the thread.
            let _ = released.recv();
        });
        told.recv().unwrap().expect("a process below this one");
        Self {
            thread: Some(thread),
            release: Some(release),
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.release.take();
        let _ = self.thread.take().unwrap().join();
    }
}

/// The main process says its number.
const SERVER: &str = "echo $$; exec sleep 1000";

/// As a client of ours has it.
fn extended() -> Value {
    json!({"clientName": "raw", "extensions": {"mcpLifecycle": {"version": 1}}})
}

async fn first_line(client: &mut Raw) -> String {
    use base64::Engine as _;
    let chunk = client.notification("process/output").await["chunk"].clone();
    let bytes = base64::engine::general_purpose::STANDARD.decode(chunk.as_str().unwrap());
    String::from_utf8(bytes.unwrap()).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_cannot_prove_an_end_tells_its_client_and_leaves_with_three() {
    let mut peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mut held = launch(&launcher, sh(SERVER)).await;
    let other = launch(&launcher, sh("exec cat")).await;
    let tracer = Tracer::of(held.line().await.parse().unwrap());
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert_eq!(within(peer.child.wait()).await.unwrap().code(), Some(3));
    let policy = TerminationPolicy::immediate();
    let outcome = held.end(&policy).await;
    let error = outcome.expect_err("it is a zombie that nobody has reaped");
    let text = mcp_lifecycle_core::ErrorChain(&error).to_string();
    assert!(text.contains("not proven gone"), "{text}");
    // What was proven is not in doubt.
    other.end(&policy).await.unwrap();
    drop(tracer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_end_is_not_proven_is_not_over_for_who_comes_back() {
    let args = ["--listen", "ws://127.0.0.1:0", "--lease", "0.5"];
    let peer = listen(DAEMON, &args).await;
    let (mut client, hello) = Raw::open_with(&peer.url, extended()).await;
    let started = start("held", &["/bin/sh", "-c", SERVER]);
    client.request("process/start", started).await.unwrap();
    let tracer = Tracer::of(first_line(&mut client).await.parse().unwrap());
    drop(client);
    let mut again = extended();
    again["resumeSessionId"] = hello["sessionId"].clone();
    let error = within(async {
        loop {
            let mut client = Raw::connect(&peer.url).await;
            match client.request("initialize", again.clone()).await {
                // It has its lease, or is being ended.
                Ok(_) => tokio::time::sleep(Duration::from_secs(2)).await,
                Err(error) if error["code"] == -32010 => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => break error,
            }
        }
    })
    .await;
    // By this word a client would know that nothing is left.
    assert_eq!(error["data"]["machine"], Value::Null, "{error}");
    assert_eq!(error["data"]["unproven"], 1, "{error}");
    drop(tracer);
}

/// A server that is asked to leave, and stays.
struct Slow {
    mark: String,
    directory: tempfile::TempDir,
}

impl Slow {
    async fn start(client: &mut Raw) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mark = marker("slow");
        let script = format!(
            "trap ': > {}' TERM; echo up; while :; do sleep 0.01; done; : {mark}",
            Self::asked(directory.path()).display()
        );
        let started = start("slow", &["/bin/sh", "-c", &script]);
        client.request("process/start", started).await.unwrap();
        assert_eq!(first_line(client).await, "up");
        Self { mark, directory }
    }

    fn asked(directory: &Path) -> std::path::PathBuf {
        directory.join("asked")
    }

    async fn is_asked_to_leave(&self) {
        within(async {
            while !Self::asked(self.directory.path()).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// Its client was silent for a lease, and wakes up while its processes are ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_good_bye_waits_for_the_end_of_the_processes() {
    let args = ["--listen", "ws://127.0.0.1:0", "--lease", "1"];
    let peer = listen(DAEMON, &args).await;
    let (mut client, _) = Raw::open_with(&peer.url, extended()).await;
    let slow = Slow::start(&mut client).await;
    slow.is_asked_to_leave().await;
    client.notify("session/nothing", json!({})).await;
    client.notification("session/ended").await;
    assert_eq!(alive(&slow.mark), Vec::<String>::new());
}

/// A daemon whose servers have so many seconds to leave.
async fn patient(seconds: u64) -> (Daemon, String) {
    let mut limits = Limits::default();
    limits.orphans.term_grace = Duration::from_secs(seconds);
    serving(limits).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_good_bye_of_a_daemon_that_leaves_waits_for_an_end_that_is_under_way() {
    let (daemon, url) = patient(1).await;
    let (mut client, _) = Raw::open_with(&url, extended()).await;
    let slow = Slow::start(&mut client).await;
    client.notify("session/end", json!({})).await;
    slow.is_asked_to_leave().await;
    tokio::join!(daemon.shutdown(), async {
        client.notification("session/ended").await;
        assert_eq!(alive(&slow.mark), Vec::<String>::new());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_hurried_hurries_the_end_of_a_session_that_was_under_way() {
    let (daemon, url) = patient(3600).await;
    let (mut client, _) = Raw::open_with(&url, extended()).await;
    let slow = Slow::start(&mut client).await;
    client.notify("session/end", json!({})).await;
    slow.is_asked_to_leave().await;
    daemon.hurry();
    assert_eq!(within(daemon.shutdown()).await, 0);
    assert_eq!(alive(&slow.mark), Vec::<String>::new());
}

/// A daemon that answers at an address answers for all that was started there.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_gets_the_address_of_a_daemon_that_is_ending_its_servers() {
    let (daemon, url) = patient(3600).await;
    let address = url.trim_start_matches("ws://");
    let (mut client, _) = Raw::open_with(&url, extended()).await;
    let slow = Slow::start(&mut client).await;
    tokio::join!(daemon.shutdown(), async {
        slow.is_asked_to_leave().await;
        let error = TcpListener::bind(address).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        // Who comes is sent away, and need not wait.
        let mut late = TcpStream::connect(address).await.unwrap();
        let answer = within(late.read_to_end(&mut Vec::new())).await;
        assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");
        daemon.hurry();
    });
    // It is given back by the task that served.
    within(async {
        while TcpListener::bind(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_has_left_takes_no_address() {
    let (daemon, _) = serving(Limits::default()).await;
    assert_eq!(within(daemon.shutdown()).await, 0);
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(address, None, None).await.unwrap();
    let url = listener.url().unwrap();
    within(listener.serve(&daemon)).await;
    let again = TcpListener::bind(url.trim_start_matches("ws://")).await;
    again.unwrap();
}

/// Another daemon there would say that nothing is left: it does not look for what a
/// living host has started.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_gets_the_address_while_an_end_is_in_doubt() {
    let (daemon, url) = serving(Limits::default()).await;
    let address = url.trim_start_matches("ws://");
    let (mut client, _) = Raw::open_with(&url, extended()).await;
    let started = start("held", &["/bin/sh", "-c", SERVER]);
    client.request("process/start", started).await.unwrap();
    let tracer = Tracer::of(first_line(&mut client).await.parse().unwrap());
    assert_eq!(within(daemon.shutdown()).await, 1);
    // With its last connection neither.
    drop(client);
    for _ in 0..50 {
        let error = TcpListener::bind(address).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(tracer);
    within(async {
        while TcpListener::bind(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_beside_another_one_does_not_answer_for_its_sessions() {
    let listen = || daemon(&[]);
    let (one, other) = (listen().await, listen().await);
    let machine = |hello: &Value| hello["extensions"]["mcpLifecycle"]["machine"].clone();
    let (_client, hello) = Raw::open_with(&one.url, extended()).await;
    let ours = machine(&hello);
    assert!(ours.is_string(), "{hello}");
    // As through a balancer, or a tunnel that leads elsewhere by now.
    let mut again = extended();
    again["resumeSessionId"] = hello["sessionId"].clone();
    let mut lost = Raw::connect(&other.url).await;
    let error = lost.request("initialize", again).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "unknownSession");
    assert_ne!(error["data"]["machine"], ours);
    let (_client, hello) = Raw::open_with(&other.url, extended()).await;
    assert_ne!(machine(&hello), ours);
}
