//! The launcher against a model of a cluster, for what a real one on this machine cannot have:
//! hundreds of servers, and version 5 of the streaming protocol. No containers are in it, and
//! nothing is proven by it but what the launcher asks, and what it makes of the answers.

mod credentials;
mod pods;
mod server;
mod sessions;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use mcp_launcher_kubernetes::{KubernetesLauncher, PodOptions};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, ServerStdin, TerminationPolicy};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader as Buffered, Lines};
use tokio::time::{sleep, timeout};

use pods::Counts;

const PROTOCOL: &str = "MCP_KUBERNETES_MODEL_PROTOCOL";
const V4: &str = "v4.channel.k8s.io";
const V5: &str = "v5.channel.k8s.io";

const LIMIT: Duration = Duration::from_secs(60);

/// The model, in a process of its own: its memory and descriptors are not the host's.
struct Model {
    child: Child,
    /// The harness of that process ends it when nobody can read what it says.
    _stdout: ChildStdout,
    address: String,
    kubeconfig: tempfile::NamedTempFile,
}

impl Model {
    fn start(protocol: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "the_model_serves_until_it_is_killed",
                "--nocapture",
            ])
            .env(PROTOCOL, protocol)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let lines = BufReader::new(&mut stdout).lines();
        let address = lines.map(Result::unwrap).find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            Some(address.to_owned())
        });
        let address = address.expect("the model listens");
        let model = Self {
            child,
            _stdout: stdout,
            address,
            kubeconfig: tempfile::NamedTempFile::new().unwrap(),
        };
        model.user(&json!({}));
        model
    }

    /// Says who its user is, as a kubeconfig does.
    fn user(&self, user: &Value) {
        let server = format!("http://{}", self.address);
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}]});
        std::fs::write(self.kubeconfig.path(), config.to_string()).unwrap();
    }

    fn launcher(&self) -> KubernetesLauncher {
        let launcher = KubernetesLauncher::builder().namespace("default");
        launcher.kubeconfig(self.kubeconfig.path()).build().unwrap()
    }

    fn launcher_kept_alive(&self, every: Duration) -> KubernetesLauncher {
        let launcher = KubernetesLauncher::builder().namespace("default");
        let launcher = launcher.kubeconfig(self.kubeconfig.path());
        launcher.keep_alive(every).build().unwrap()
    }

    fn ask(&self, request: &str, body: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: model\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }

    /// What was asked since the last call.
    fn counts(&self) -> Counts {
        serde_json::from_str(&self.ask("GET /counts", "")).unwrap()
    }

    /// Refuses a request so many times: `create pods`, or `continue pods` for another page.
    fn refuse(&self, request: &str, code: u16, times: u32) {
        let request = request.replace(' ', "+");
        let fault = format!("GET /fault?request={request}&code={code}&times={times}");
        self.ask(&fault, "");
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test, but the model's process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_serves_until_it_is_killed() {
    if let Ok(protocol) = std::env::var(PROTOCOL) {
        server::serve(if protocol == V4 { V4 } else { V5 }).await;
    }
}

struct Server {
    handle: ServerHandle,
    stdin: ServerStdin,
    stdout: Lines<Buffered<mcp_lifecycle_core::launch::BoxRead>>,
}

async fn launch(launcher: &KubernetesLauncher) -> Server {
    let spec = PodOptions::new("image").command("server", "cat");
    let (spec, context) = (spec.build().unwrap(), LaunchContext::new());
    let launched = timeout(LIMIT, launcher.launch(&spec, &context)).await;
    let parts = launched.expect("a launch in time").unwrap().into_parts();
    let (handle, stdin) = ServerHandle::new("server", parts.stdin, parts.terminator);
    let stdout = Buffered::new(parts.stdout).lines();
    let mut server = Server {
        handle,
        stdin,
        stdout,
    };
    let line = server.line().await;
    if line.as_deref() != Some("ready") {
        let ended = server
            .handle
            .terminate(&policy(), EndReason::Shutdown)
            .await;
        panic!("{line:?} instead of its first line; {ended:?}");
    }
    server
}

fn policy() -> TerminationPolicy {
    TerminationPolicy::new().kill_confirmation(LIMIT)
}

impl Server {
    async fn line(&mut self) -> Option<String> {
        let line = timeout(LIMIT, self.stdout.next_line());
        line.await.expect("a line in time").unwrap()
    }

    async fn end(self) {
        self.handle
            .terminate(&policy(), EndReason::Shutdown)
            .await
            .unwrap();
    }
}

/// What is written after the end of the input arrives, or is lost, as the protocol says.
#[tokio::test]
async fn version_5_of_the_protocol_closes_the_input_alone() {
    for (protocol, last) in [(V5, Some("goodbye")), (V4, None)] {
        let model = Model::start(protocol);
        let mut server = launch(&model.launcher()).await;
        server.stdin.write_all(b"ping\n").await.unwrap();
        assert_eq!(server.line().await.as_deref(), Some("ping"));
        server.stdin.shutdown().await.unwrap();
        assert_eq!(server.line().await.as_deref(), last, "{protocol}");
        server.end().await;
        assert_eq!(model.counts().objects["pods"], 0);
    }
}

/// In KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

async fn launch_many(launcher: &KubernetesLauncher, many: usize, at_once: usize) -> Vec<Server> {
    let launches = stream::iter(0..many).map(|_| launch(launcher));
    launches.buffer_unordered(at_once).collect().await
}

/// Of a time in which nothing happens: what 500 servers cost.
#[tokio::test]
async fn five_hundred_idle_servers_cost_one_watch_and_one_renewal_in_ten_seconds() {
    const SERVERS: usize = 500;
    const IDLE: u64 = 25;
    let model = Model::start(V5);
    let launcher = model.launcher();
    for server in launch_many(&launcher, 20, 20).await {
        server.end().await;
    }
    let before = memory();
    let mut servers = launch_many(&launcher, SERVERS, 20).await;
    // The secrets and what else is done after a launch.
    sleep(Duration::from_secs(6)).await;
    let per_server = memory().saturating_sub(before) * 1024 / SERVERS as u64;
    model.counts();
    sleep(Duration::from_secs(IDLE)).await;
    let idle = model.counts();
    println!("{idle:?}; {per_server} bytes of memory per idle server");
    assert_eq!(idle.watches, 1);
    assert_eq!(idle.watch_bytes, 0);
    let renewals = idle
        .requests
        .get("patch leases")
        .copied()
        .unwrap_or_default();
    assert!((2..=3).contains(&renewals), "{idle:?}");
    assert_eq!(idle.requests.len(), 1, "{idle:?}");
    assert!(per_server <= 96 * 1024, "{per_server} bytes");
    // They live: through 25 s without a byte, and each answers for itself.
    for server in &mut servers {
        server.stdin.write_all(b"ping\n").await.unwrap();
        assert_eq!(server.line().await.as_deref(), Some("ping"));
    }
    let ends = stream::iter(servers).map(Server::end);
    ends.buffer_unordered(50).collect::<Vec<()>>().await;
    sleep(Duration::from_secs(1)).await;
    let left = model.counts();
    assert_eq!((left.objects["pods"], left.objects["leases"]), (0, 0));
    assert_eq!(left.watches, 0);
}

/// A search asks for 500 pods at a time, and begins again where the server does not know the
/// rest of its pages any more.
#[tokio::test]
async fn a_search_goes_page_by_page_and_begins_again_when_pages_are_forgotten() {
    const PODS: usize = 510;
    let model = Model::start(V5);
    let instance = "0123456789abcdef0123456789abcdef";
    let (namespace, host) = (
        "namespaces/default",
        format!("mcp-host-{}", &instance[..16]),
    );
    let labels = |role: &str| {
        let key = |name: &str| format!("dev.mcp-lifecycle.{name}");
        json!({key("instance"): instance, key("role"): role})
    };
    // A Lease that cannot be read says that its host may live.
    let lease = json!({"metadata": {"name": host, "labels": labels("host")}, "spec": {}});
    let leases = format!("POST /apis/coordination.k8s.io/v1/{namespace}/leases");
    model.ask(&leases, &lease.to_string());
    for number in 0..PODS {
        let launch = format!("{number:016x}").repeat(2);
        let mut labels = labels("server");
        labels["dev.mcp-lifecycle.launch"] = launch.as_str().into();
        let pod = json!({"metadata": {"name": format!("mcp-s-{}", &launch[..16]), "labels": labels,
            "ownerReferences": [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "name": host, "uid": "u"}]}, "spec": {"containers": [{"name": "server"}]}});
        model.ask(&format!("POST /api/v1/{namespace}/pods"), &pod.to_string());
    }
    model.counts();
    model.refuse("continue pods", 410, 1);
    let found = model.launcher().reap_orphans().await.unwrap();
    assert_eq!(found.spared.len(), PODS, "each once");
    let asked = model.counts().requests;
    let times = |request: &str| asked.get(request).copied().unwrap_or_default();
    let all = ["list pods", "continue pods 410", "continue pods"].map(times);
    assert_eq!(all, [2, 1, 1], "{asked:?}");
    // One whose pages are never known to their end is no search that found nothing.
    model.refuse("continue pods", 410, 1000);
    let failed = model.launcher().reap_orphans().await.unwrap_err();
    assert!(failed.to_string().contains("410"), "{failed}");
}

/// Its caller has gone while the API server is busy: nothing is asked for it any more.
#[tokio::test]
async fn a_launch_that_waits_for_a_busy_server_can_be_cancelled() {
    let model = Model::start(V5);
    let launcher = model.launcher();
    for (request, code) in [
        ("create pods", 429),
        ("create pods", 503),
        ("create secrets", 429),
    ] {
        model.refuse(request, code, 1000);
        let spec = PodOptions::new("image").command("server", "cat");
        let (spec, context) = (spec.env("A", "1").build().unwrap(), LaunchContext::new());
        let refusals = format!("{request} {code}");
        let mut launch = launcher.launch(&spec, &context);
        let mut asked = 0;
        while asked <= 2 {
            let waits = timeout(Duration::from_millis(200), &mut launch).await;
            assert!(
                waits.is_err(),
                "it waits: {:?}",
                waits.map(|done| done.err())
            );
            asked += model.counts().requests.get(&refusals).unwrap_or(&0);
        }
        drop(launch);
        // What was under way when it was cancelled.
        sleep(Duration::from_secs(1)).await;
        model.counts();
        sleep(Duration::from_secs(6)).await;
        let after = model.counts();
        assert!(!after.requests.contains_key(&refusals), "{after:?}");
        model.refuse(request, code, 0);
        let of = |kind: &str| after.objects.get(kind).copied().unwrap_or_default();
        assert_eq!((of("pods"), of("secrets")), (0, 0), "{after:?}");
    }
    launch(&launcher).await.end().await;
}

fn number(name: &str, otherwise: usize) -> usize {
    let told = std::env::var(name).ok();
    told.map_or(otherwise, |told| told.parse().expect("a number"))
}

/// Prints the report of `docs/kubernetes.md`.
#[tokio::test]
#[ignore = "takes minutes: MCP_KUBERNETES_SERVERS and MCP_KUBERNETES_HOSTS say how many"]
async fn servers_on_many_hosts() {
    let servers = number("MCP_KUBERNETES_SERVERS", 10_000);
    let hosts = number("MCP_KUBERNETES_HOSTS", 50);
    let model = Model::start(V5);
    let launchers: Vec<_> = (0..hosts).map(|_| model.launcher()).collect();
    let before = memory();
    let begun = Instant::now();
    let launches = launchers
        .iter()
        .map(|launcher| launch_many(launcher, servers / hosts, 4));
    let all: Vec<_> = stream::iter(launches)
        .buffer_unordered(hosts)
        .collect()
        .await;
    let took = begun.elapsed();
    println!("launched {servers} on {hosts} hosts in {took:.0?}");
    println!(
        "{} KiB of memory in the process of all hosts",
        memory() - before
    );
    let report = |what: &str, counts: &Counts, seconds: f64| {
        let calls: u64 = counts.requests.values().sum();
        println!(
            "{what}: {calls} calls, {:.2} per host and second; {} bytes of watches, {:.0} per host and second; \
             {} bytes of lists; {} watches; {:?}",
            calls as f64 / seconds / hosts as f64,
            counts.watch_bytes,
            counts.watch_bytes as f64 / seconds / hosts as f64,
            counts.list_bytes,
            counts.watches,
            counts.requests,
        );
    };
    report("launches", &model.counts(), took.as_secs_f64());
    let idle = 40;
    sleep(Duration::from_secs(5)).await;
    model.counts();
    sleep(Duration::from_secs(idle)).await;
    report("idle", &model.counts(), idle as f64);
    let begun = Instant::now();
    let reaped = model.launcher().reap_orphans().await.unwrap();
    let took = begun.elapsed();
    assert_eq!(reaped.ended.len(), 0, "all hosts live");
    println!("a search spared {} in {took:.1?}", reaped.spared.len());
    report("search", &model.counts(), took.as_secs_f64());
    let begun = Instant::now();
    let ends = stream::iter(all.into_iter().flatten()).map(Server::end);
    ends.buffer_unordered(200).collect::<Vec<()>>().await;
    let took = begun.elapsed();
    println!("ended all in {took:.0?}");
    report("ends", &model.counts(), took.as_secs_f64());
}
