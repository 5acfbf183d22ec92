//! One test: a watchdog, an observer, a census before and after, and a runtime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::alive::{AliveConn, AliveListener};
use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_conformance::deadline::Watchdog;
use mcp_lifecycle_core::client::{CallError, LifecycleClient, ServerConfig, StartError};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::{Phase, TerminationPolicy, TerminationReport};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Far more than anything here takes; reached only by a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A census counts the whole process, so tests take turns where the runner
/// does not give each a process of its own.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Rig {
    pub(crate) alive: AliveListener,
    before: Census,
    _watchdog: Watchdog,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn launcher() -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::new())
}

/// Returns whether the server ended without a signal and left nothing behind.
pub(crate) fn is_graceful(report: &TerminationReport) -> bool {
    let quiet = [Phase::CloseStdin, Phase::Stragglers];
    report.gone.swept_count == 0 && report.phases.iter().all(|it| quiet.contains(&it.phase))
}

/// Runs a test on a runtime that is gone when the census is taken.
#[track_caller]
pub(crate) fn test(name: &str, body: impl AsyncFnOnce(&Rig)) {
    let rig = Rig::new(name);
    let runtime = runtime();
    runtime.block_on(body(&rig));
    drop(runtime);
    rig.finish();
}

impl Rig {
    pub(crate) fn new(name: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let watchdog = Watchdog::arm(name, LIMIT * 6);
        warm_up();
        Self {
            alive: AliveListener::unix().unwrap(),
            before: Census::take().without_threads().allowing_less(),
            _watchdog: watchdog,
            _turn: turn,
        }
    }

    /// Everybody is dead, and this process holds on to nothing.
    #[track_caller]
    pub(crate) fn finish(self) {
        self.alive
            .block_on(self.alive.expect_all_dead(LIMIT))
            .unwrap_or_else(|error| panic!("{error}"));
        self.before
            .settle(LIMIT)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }

    /// The specification of a fixture that reports to this rig.
    pub(crate) fn fixture(&self, args: &[&str]) -> ServerSpec {
        ServerSpec::builder(args[0], env!("CARGO_BIN_EXE_mcp-fixture"))
            .args(args)
            .args(["--alive".to_owned(), self.alive.address()])
            .build()
            .unwrap()
    }

    pub(crate) fn config(&self, args: &[&str]) -> ServerConfig {
        ServerConfig::new(launcher(), self.fixture(args)).termination(short())
    }

    pub(crate) async fn start(&self, args: &[&str]) -> LifecycleClient {
        self.start_with(args, short()).await
    }

    /// The same, ended by this policy.
    pub(crate) async fn start_with(
        &self,
        args: &[&str],
        policy: TerminationPolicy,
    ) -> LifecycleClient {
        let config = self.config(args).termination(policy);
        let started = LifecycleClient::start(config).await;
        started.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    pub(crate) async fn accept(&self, role: &str) -> AliveConn {
        let accepted = self.alive.accept(role, LIMIT).await;
        accepted.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn event(&self, conn: &AliveConn, event: &str) -> String {
        let seen = conn.event(event, LIMIT).await;
        seen.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a call that blocks, and waits until the server is in it.
    pub(crate) async fn block(
        &self,
        client: &LifecycleClient,
        server: &AliveConn,
    ) -> JoinHandle<Result<CallToolResult, CallError>> {
        let peer = client.peer().clone();
        let call = tokio::spawn(async move { peer.call_tool(tool("block", json!({}))).await });
        self.event(server, "blocking").await;
        call
    }
}

/// Graces that keep stubborn servers' tests short. No verdict depends on them: who
/// cooperates has another policy.
pub(crate) fn short() -> TerminationPolicy {
    TerminationPolicy::default()
        .eof_grace(Duration::from_millis(400))
        .term_grace(Duration::from_millis(400))
        .kill_confirmation(LIMIT)
}

/// Graces that no server which cooperates needs, nor the proof of its end.
pub(crate) fn patient() -> TerminationPolicy {
    let policy = short().eof_grace(LIMIT).term_grace(LIMIT);
    policy.straggler_grace(LIMIT)
}

/// For a server that ignores the end of its input and obeys SIGTERM.
pub(crate) fn deaf_to_eof() -> TerminationPolicy {
    short().term_grace(LIMIT)
}

pub(crate) fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(name).with_arguments(arguments)
}

pub(crate) fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

pub(crate) fn chain(error: &StartError) -> String {
    mcp_lifecycle_core::launch::ErrorChain(error).to_string()
}

/// The launcher keeps one thread and its epoll descriptor for the life of the
/// process, from the first launch on. Returns when nothing else is left of it:
/// a guardian is reaped a moment before its descriptors are closed, and whoever
/// counts in between counts one server too many.
fn warm_up() {
    // The runtime keeps something of its own for the life of the process, too.
    drop(runtime());
    let before = Census::take();
    let runtime = runtime();
    runtime.block_on(async {
        let spec = ServerSpec::builder("warm-up", "true").build().unwrap();
        drop(
            launcher()
                .launch(&spec, &LaunchContext::new())
                .await
                .unwrap(),
        );
    });
    drop(runtime);
    let of_a_server = |census: &Census| {
        let fds = ["socket:", "pipe:", "anon_inode:[pidfd]"].map(|kind| census.fds_of(kind));
        (census.child_count(), fds)
    };
    let deadline = std::time::Instant::now() + LIMIT;
    while of_a_server(&Census::take()) != of_a_server(&before) {
        assert!(std::time::Instant::now() < deadline, "the warm-up is stuck");
        std::thread::yield_now();
    }
}
