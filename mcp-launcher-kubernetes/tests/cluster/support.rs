//! A namespace of a test's own, seen by `kubectl`; servers of `sh`; hosts to be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_launcher_kubernetes::{Init, KubernetesLauncher, PodOptions};
use mcp_lifecycle_core::launch::{
    LaunchContext, LaunchError, LaunchedServer, ServerLauncher, ServerSpec,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, Lines};
use tokio::time::{sleep, timeout};

/// For what should take no time, on a kubelet that looks once a second.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long an end is waited for that cannot be proven.
pub(crate) const SOON: Duration = Duration::from_secs(8);

/// Shorter than by default: a search beside a dead host waits for as long.
pub(crate) const LEASE: Duration = Duration::from_secs(12);

/// A server that answers what it is told, and leaves at the end of its input.
pub(crate) const POLITE: &str = "echo ready; cat";
/// A server that does not leave.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 1; done";

pub(crate) fn kubectl(args: &[&str]) -> String {
    let output = Command::new("kubectl").args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {args:?}: {text}{errors}");
    text.trim().to_owned()
}

/// Does something to a service of the cluster: `["kill", "apiserver"]`.
pub(crate) fn cluster(args: &[&str]) {
    let script = std::env::var("MCP_TEST_CLUSTER").expect("run by tests/kubernetes/lane");
    let mut words = script.split(' ');
    let status = Command::new(words.next().unwrap())
        .args(words)
        .args(args)
        .status();
    assert!(status.unwrap().success(), "{args:?}");
}

/// A namespace, which is deleted in the end. A test that fails prints what became of its pods.
pub(crate) struct Namespace(
    pub(crate) String,
    #[expect(dead_code, reason = "it is for its end")] Record,
);

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        kubectl(&["create", "namespace", name]);
        Self(name.to_owned(), Record::begin(name))
    }

    pub(crate) fn launcher(&self) -> KubernetesLauncher {
        let launcher = KubernetesLauncher::builder().namespace(&self.0);
        launcher.lease(LEASE).build().unwrap()
    }

    /// The names of what is there.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let text = kubectl(&["-n", &self.0, "get", kind, "-o", "name"]);
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&[&["-n", &self.0], args].concat())
    }

    /// Waits until the kubelets have said of all pods that they run: a server answers up to a
    /// second earlier, before its container has been named to anybody. A kubelet of 1.20 loses
    /// sight of a pod that somebody deletes in that time.
    pub(crate) async fn is_told(&self) {
        let phases = ["get", "pods", "-o", "jsonpath={.items[*].status.phase}"];
        eventually("it is told that they run", || {
            let phases = self.kubectl(&phases);
            !phases.is_empty() && phases.split(' ').all(|phase| phase == "Running")
        })
        .await;
    }

    pub(crate) async fn launch(&self, script: &str) -> Result<Server, LaunchError> {
        launch(&self.launcher(), &spec(options(), script)).await
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("kubectl")
            .args(["delete", "namespace", "--wait=false", &self.0])
            .output();
    }
}

/// Every state of every pod of a namespace, as told to somebody else than us.
struct Record {
    kubectl: Child,
    file: tempfile::NamedTempFile,
}

impl Record {
    fn begin(namespace: &str) -> Self {
        const LINE: &str = "jsonpath={.type} {.object.metadata.name} \
            deletion={.object.metadata.deletionTimestamp} grace={.object.metadata.deletionGracePeriodSeconds} \
            {.object.status.phase} {.object.status.reason} {.object.status.containerStatuses}{\"\\n\"}";
        let file = tempfile::NamedTempFile::new().unwrap();
        let kubectl = Command::new("kubectl")
            .args(["-n", namespace, "get", "pods", "--watch"])
            .args(["--output-watch-events", "-o", LINE])
            .stdout(file.reopen().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { kubectl, file }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
        if std::thread::panicking() {
            let told = std::fs::read_to_string(self.file.path());
            eprintln!("what was told of the pods:\n{}", told.unwrap_or_default());
        }
    }
}

/// Options that a pod needs on this cluster, which has no network for pods.
pub(crate) fn options() -> PodOptions {
    PodOptions::new("localhost/mcp-fixture:1")
        .run_as_user(65534)
        .init_grace(Duration::from_secs(2))
        .pod(json!({"spec": {"hostNetwork": true}}))
}

/// The same, without an init.
pub(crate) fn plain() -> PodOptions {
    options().init(Init::None)
}

/// A server that is a script.
pub(crate) fn spec(options: PodOptions, script: &str) -> ServerSpec {
    let spec = options.command("server", "sh").args(["-c", script]);
    spec.build().unwrap()
}

/// A launched server, with the lines that it writes.
pub(crate) struct Server {
    pub(crate) handle: ServerHandle,
    pub(crate) stdin: mcp_lifecycle_core::terminate::ServerStdin,
    pub(crate) stdout: Lines<tokio::io::BufReader<mcp_lifecycle_core::launch::BoxRead>>,
    pub(crate) stderr: Lines<tokio::io::BufReader<mcp_lifecycle_core::launch::BoxRead>>,
}

pub(crate) async fn launch(
    launcher: &KubernetesLauncher,
    spec: &ServerSpec,
) -> Result<Server, LaunchError> {
    let context = LaunchContext::new();
    let launched = timeout(LIMIT, launcher.launch(spec, &context));
    Ok(Server::own(
        launched.await.expect("the launch takes too long")?,
    ))
}

impl Server {
    pub(crate) fn own(launched: LaunchedServer) -> Self {
        let parts = launched.into_parts();
        let (handle, stdin) = ServerHandle::new("server", parts.stdin, parts.terminator);
        let lines = |output| tokio::io::BufReader::new(output).lines();
        Self {
            handle,
            stdin,
            stdout: lines(parts.stdout),
            stderr: lines(parts.stderr.unwrap()),
        }
    }

    /// The next line of its output; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = timeout(LIMIT, self.stdout.next_line());
        line.await.expect("no line comes").unwrap()
    }

    /// Ends it: the report, or the error, as text.
    pub(crate) async fn end(&self) -> Result<String, String> {
        self.end_within(LIMIT).await
    }

    /// The same, and waits no longer for the proof after a forced end.
    pub(crate) async fn end_within(&self, limit: Duration) -> Result<String, String> {
        let second = Duration::from_secs(1);
        let policy = TerminationPolicy::new()
            .eof_grace(second)
            .term_grace(second)
            .kill_confirmation(limit);
        let ended = self.handle.terminate(&policy, EndReason::Shutdown).await;
        ended
            .map(|report| report.to_string())
            .map_err(|error| error.to_string())
    }

    /// The name of its pod.
    pub(crate) fn pod(&self) -> String {
        let identity = self.handle.identity().to_string();
        identity.split(' ').nth(1).unwrap().to_owned()
    }
}

/// Waits for what a kubelet does in its own time: one of 1.20 takes a minute and more to give up a
/// pod that cannot start.
pub(crate) async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    const LONG: Duration = LIMIT.saturating_mul(3);
    let end = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < end, "not within {LONG:?}: {what}");
        sleep(Duration::from_millis(200)).await;
    }
}

pub(crate) const ROLE: &str = "MCP_KUBERNETES_TEST_HOST";

/// What this process was told, if it was started as a host.
pub(crate) fn is_host() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A host in a process of its own, started only to be killed.
pub(crate) struct Host {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    /// Runs the test `name` of this binary as a host that is told `what` to do.
    pub(crate) fn start(name: &str, what: &str) -> Self {
        Self::start_with(name, what, &[])
    }

    /// The same, with more in its environment.
    pub(crate) fn start_with(name: &str, what: &str, env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ROLE, what)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits until it has printed a line that ends so.
    pub(crate) fn wait_for(&mut self, line: &str) {
        let mut lines = (&mut self.stdout).lines();
        let found = lines.any(|found| found.is_ok_and(|found| found.ends_with(line)));
        assert!(found, "the host ended without {line:?}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
