//! Servers as pods beside `kubectl`, on the cluster of `KUBECONFIG`, in turns: ratios of one run.
//!
//! `tests/kubernetes/lane cargo bench -p mcp-launcher-kubernetes`; the images are the lane's.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_launcher_kubernetes::{Init, KubernetesLauncher, PodOptions};
use mcp_lifecycle_core::launch::{BoxRead, LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, ServerStdin, TerminationPolicy};
use mcp_lifecycle_measure::{Figure, Run};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader as Buffered, Lines};

const ROUNDS: usize = 5;
const AT_ONCE: usize = 20;
const PINGS: u32 = 200;
const IMAGE: &str = "localhost/mcp-fixture:1";

struct Server {
    handle: ServerHandle,
    stdin: ServerStdin,
    stdout: Lines<Buffered<BoxRead>>,
}

impl Server {
    /// Launches `cat`, and waits for its first answer.
    async fn launch(launcher: &KubernetesLauncher, init: Init) -> Self {
        let options = PodOptions::new(IMAGE).run_as_user(65534).init(init);
        let options = options.pod(json!({"spec": {"hostNetwork": true}}));
        let spec = options.command("bench", "cat").build().unwrap();
        let launched = launcher.launch(&spec, &LaunchContext::new()).await;
        let parts = launched.unwrap().into_parts();
        let (handle, stdin) = ServerHandle::new("bench", parts.stdin, parts.terminator);
        let stdout = Buffered::new(parts.stdout).lines();
        let mut server = Self {
            handle,
            stdin,
            stdout,
        };
        server.ping().await;
        server
    }

    async fn ping(&mut self) {
        self.stdin.write_all(b"ping\n").await.unwrap();
        assert_eq!(
            self.stdout.next_line().await.unwrap().as_deref(),
            Some("ping")
        );
    }

    async fn end(self) {
        let policy = TerminationPolicy::new().kill_confirmation(Duration::from_secs(60));
        self.handle
            .terminate(&policy, EndReason::Shutdown)
            .await
            .unwrap();
    }
}

/// The same with `kubectl run -i`, or `kubectl attach -i`.
struct Kubectl {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Kubectl {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new("kubectl")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut kubectl = Self { child, stdout };
        kubectl.ping();
        kubectl
    }

    fn run(name: &str) -> Self {
        Self::start(&[&run(name)[..], &["-i", "--command", "--", "cat"]].concat())
    }

    fn ping(&mut self) {
        let mut stdin = self.child.stdin.as_ref().unwrap();
        stdin.write_all(b"ping\n").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ping\n");
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(name: &str) -> [&str; 6] {
    const NETWORK: &str = r#"--overrides={"spec":{"hostNetwork":true}}"#;
    const NEVER: &str = "--image-pull-policy=Never";
    [
        "run",
        name,
        "--restart=Never",
        "--image=localhost/mcp-fixture:1",
        NEVER,
        NETWORK,
    ]
}

fn kubectl(args: &[&str]) {
    let output = Command::new("kubectl").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// The medians in milliseconds, and their ratio.
fn figure(name: &str, mut ours: Vec<Duration>, mut theirs: Vec<Duration>) -> Figure {
    ours.sort();
    theirs.sort();
    let ms = |times: &[Duration]| times[times.len() / 2].as_secs_f64() * 1e3;
    Figure::ratio(name, ms(&ours), ("kubectl", ms(&theirs)), "ms")
}

#[tokio::main]
async fn main() {
    let mut measured = Run::begin("pods");
    let launcher = KubernetesLauncher::builder()
        .namespace("default")
        .build()
        .unwrap();
    Server::launch(&launcher, Init::Supervised)
        .await
        .end()
        .await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut ends, mut deletes) = (Vec::new(), Vec::new());
    let mut plain = Vec::new();
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let server = Server::launch(&launcher, Init::Supervised).await;
        ours.push(begun.elapsed());
        let begun = Instant::now();
        server.end().await;
        ends.push(begun.elapsed());
        let begun = Instant::now();
        let server = Server::launch(&launcher, Init::None).await;
        plain.push(begun.elapsed());
        server.end().await;

        let name = format!("bench-{round}");
        let begun = Instant::now();
        let pod = Kubectl::run(&name);
        theirs.push(begun.elapsed());
        drop(pod);
        kubectl(&["delete", "pod", &name, "--wait"]);

        let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
        kubectl(&[&run(&name)[..], &["--command", "--", "sh", "-c", script]].concat());
        kubectl(&["wait", "--for=condition=Ready", "pod", &name]);
        let begun = Instant::now();
        kubectl(&["delete", "pod", &name, "--wait"]);
        deletes.push(begun.elapsed());
    }
    measured.figure(figure("create to first reply", ours, theirs.clone()).at_most(1.1));
    let name = "create to first reply, without an init";
    measured.figure(figure(name, plain, theirs).at_most(1.1));
    measured.figure(figure("end of a cooperative server", ends, deletes).at_most(1.0));

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let begun = Instant::now();
        let servers =
            join_all((0..AT_ONCE).map(|_| Server::launch(&launcher, Init::Supervised))).await;
        ours.push(begun.elapsed());
        join_all(servers.into_iter().map(Server::end)).await;
        let names: Vec<String> = (0..AT_ONCE).map(|at| format!("bench-{at}")).collect();
        let begun = Instant::now();
        let pods: Vec<Kubectl> = std::thread::scope(|scope| {
            let starts = names.iter().map(|name| scope.spawn(|| Kubectl::run(name)));
            let starts: Vec<_> = starts.collect();
            starts
                .into_iter()
                .map(|start| start.join().unwrap())
                .collect()
        });
        theirs.push(begun.elapsed());
        drop(pods);
        let names = names.iter().map(String::as_str);
        kubectl(
            &["delete", "pod", "--wait"]
                .into_iter()
                .chain(names)
                .collect::<Vec<_>>(),
        );
    }
    let name = "20 in parallel, to the first reply of all";
    measured.figure(figure(name, ours, theirs).at_most(0.9));

    let mut server = Server::launch(&launcher, Init::Supervised).await;
    kubectl(
        &[
            &run("bench")[..],
            &["--stdin", "--attach=false", "--command", "--", "cat"],
        ]
        .concat(),
    );
    kubectl(&["wait", "--for=condition=Ready", "pod/bench"]);
    let mut pod = Kubectl::start(&["attach", "-i", "bench"]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PINGS {
        let begun = Instant::now();
        server.ping().await;
        ours.push(begun.elapsed());
        let begun = Instant::now();
        pod.ping();
        theirs.push(begun.elapsed());
    }
    measured.figure(figure("round trip", ours, theirs).at_most(1.2));
    server.end().await;
    drop(pod);
    kubectl(&["delete", "pod", "bench", "--wait"]);
    measured.finish();
}
