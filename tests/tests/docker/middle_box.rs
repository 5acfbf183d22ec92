//! A box between us and a remote engine that answers in its place: a load balancer,
//! a forwarding of a cloud. Its 502 and 504 say nothing about a container.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_launcher_docker::{DockerLauncher, Endpoint};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::support::{Rig, eventually, own};

/// Requests that are answered by the box: those whose first line contains `what`.
#[derive(Debug, Clone, Copy)]
struct Spoilt {
    what: &'static str,
    count: u32,
    status: u16,
    /// How late the engine gets them, after the box has answered; it never gets them
    /// where there is none.
    passed_on: Option<Duration>,
}

/// One request for each connection, so that every one of them is seen.
struct MiddleBox {
    address: String,
    spoilt: Arc<Mutex<Vec<Spoilt>>>,
}

impl MiddleBox {
    fn before(rig: &Rig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let spoilt = Arc::new(Mutex::new(Vec::new()));
        let socket = rig.engine.host.trim_start_matches("unix://").to_owned();
        let orders = Arc::clone(&spoilt);
        // Ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (socket, orders) = (socket.clone(), Arc::clone(&orders));
                std::thread::spawn(move || carry(client, &socket, &orders));
            }
        });
        Self { address, spoilt }
    }

    fn spoil(&self, what: &'static str, count: u32, status: u16, passed_on: Option<Duration>) {
        self.spoilt.lock().unwrap().push(Spoilt {
            what,
            count,
            status,
            passed_on,
        });
    }

    /// The requests that were to be spoilt and were not made.
    fn left(&self) -> Vec<Spoilt> {
        let mut left = self.spoilt.lock().unwrap().clone();
        left.retain(|one| one.count > 0);
        left
    }

    fn launcher(&self, rig: &Rig) -> DockerLauncher {
        let builder = DockerLauncher::builder().endpoint(Endpoint::Tcp(self.address.clone()));
        builder
            .ledger_directory(rig.ledgers.path())
            .build()
            .unwrap()
    }
}

/// Takes the order for a request that begins so.
fn take(orders: &Mutex<Vec<Spoilt>>, first: &str) -> Option<Spoilt> {
    let mut orders = orders.lock().unwrap();
    let found = orders
        .iter_mut()
        .find(|one| one.count > 0 && first.contains(one.what))?;
    found.count -= 1;
    Some(*found)
}

/// The head of a request, and the length of its body.
fn head(client: &mut TcpStream) -> Option<(String, usize)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let small = head.to_ascii_lowercase();
    let mut lines = small.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    Some((head, length))
}

fn carry(mut client: TcpStream, socket: &str, orders: &Mutex<Vec<Spoilt>>) {
    let Some((head, length)) = head(&mut client) else {
        return;
    };
    let spoilt = take(orders, head.lines().next().unwrap());
    if let Some(spoilt) = spoilt {
        let mut body = vec![0; length];
        client.read_exact(&mut body).unwrap();
        let answer = format!(
            "HTTP/1.1 {} -\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy",
            spoilt.status
        );
        client.write_all(answer.as_bytes()).unwrap();
        let _ = client.shutdown(Shutdown::Write);
        if let Some(late) = spoilt.passed_on {
            std::thread::sleep(late);
            let mut engine = UnixStream::connect(socket).unwrap();
            let request = [head.as_bytes(), &body].concat();
            engine.write_all(&request).unwrap();
            let _ = engine.read(&mut [0; 512]);
        }
        return;
    }
    let mut engine = UnixStream::connect(socket).unwrap();
    let is_stream = head.to_ascii_lowercase().contains("\r\nupgrade:");
    let head = match is_stream {
        true => head,
        false => head.replacen("\r\n", "\r\nConnection: close\r\n", 1),
    };
    engine.write_all(head.as_bytes()).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut engine, &mut client);
    let _ = client.shutdown(Shutdown::Both);
}

const LATE: Option<Duration> = Some(Duration::from_secs(20));

#[tokio::test]
async fn an_answer_of_a_middle_box_is_no_proof_and_is_asked_for_again() {
    let Some(rig) = Rig::new("middle-box") else {
        return;
    };
    let between = MiddleBox::before(&rig);
    let launcher = between.launcher(&rig);
    let spec = rig.spec(&["ignore-eof-term"]);
    let server = own(rig.launch_by(&launcher, &spec).await);
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_millis(200))
        .term_grace(Duration::from_millis(200))
        .kill_confirmation(Duration::from_secs(90));
    // Its kill, its removal and the questions after it, and those of the search.
    between.spoil("signal=SIGKILL", 1, 502, None);
    between.spoil("DELETE ", 3, 502, None);
    between.spoil("/json", 4, 504, None);
    between.spoil("/info", 1, 502, None);
    server.end(&policy).await.unwrap();
    assert!(rig.containers().is_empty(), "a proof of the box's");
    rig.assert_clean().await;
    between.spoil("/containers/json", 2, 503, None);
    launcher.reap_orphans().await.unwrap();
    assert!(between.left().is_empty(), "{:?}", between.left());
}

/// The box gave up waiting; the engine did not.
#[tokio::test]
async fn a_create_that_a_middle_box_answered_is_undone_when_it_comes_true() {
    let Some(rig) = Rig::new("box-create") else {
        return;
    };
    let between = MiddleBox::before(&rig);
    let launcher = between.launcher(&rig);
    between.spoil("/containers/create", 1, 504, LATE);
    let launched = launcher
        .launch(&rig.spec(&["plain"]), &LaunchContext::new())
        .await;
    let text = ErrorChain(&launched.unwrap_err()).to_string();
    assert!(text.contains("504"), "{text}");
    assert!(text.contains("should it still come true"), "{text}");
    came_and_went(&rig).await;
}

#[tokio::test]
async fn a_nested_create_that_a_middle_box_answered_is_waited_for() {
    let Some(rig) = Rig::new("box-nested") else {
        return;
    };
    let between = MiddleBox::before(&rig);
    between.spoil("/containers/create", 1, 502, LATE);
    let script = "docker create -i $RUN $PAYLOAD; exec sleep 1000";
    let spec = ServerSpec::builder(&rig.server, "sh")
        .args(["-c", script])
        .env("DOCKER_HOST", format!("tcp://{}", between.address))
        .env("RUN", format!("--network none --label test={}", rig.server))
        .env("PAYLOAD", "mcp-fixture:test /mcp-fixture plain");
    let (tracker, spec) = (rig.tracker(), spec.build().unwrap());
    let launched = tracker.launch(&spec, &LaunchContext::new()).await;
    let server = own(launched.unwrap());
    eventually("the box has answered", || between.left().is_empty()).await;
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::ZERO)
        .term_grace(Duration::ZERO)
        .kill_confirmation(Duration::from_secs(5));
    let error = server.end(&policy).await.unwrap_err().to_string();
    assert!(error.contains("a create is under way"), "{error}");
    came_and_went(&rig).await;
}

/// The create of this test comes true, and is undone.
async fn came_and_went(rig: &Rig) {
    let created = || {
        let filter = format!("label=dev.mcp-lifecycle.server={}", rig.server);
        let args = ["events", "--since", "2m", "--until", "0s", "--filter"];
        let events = rig.engine.docker(&[&args[..], &[&filter]].concat());
        events.contains("container create")
    };
    eventually("it is created", created).await;
    eventually("it is removed", || rig.containers().is_empty()).await;
}
