//! Parts that the tests with an engine share.

mod engine;
mod host;
mod image;

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, DockerLauncher, Endpoint};
use mcp_lifecycle_conformance::alive::AliveListener;
use mcp_lifecycle_core::launch::{LaunchContext, LaunchedServer, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::{
    EndReason, ServerHandle, TerminationOutcome, TerminationPolicy,
};

pub(crate) use engine::{Engine, PrivateEngine};
pub(crate) use host::{Host, ROLE, is_host, is_last_will};
pub(crate) use image::{archive, image};

/// Far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The default policy, with a proof that comes late only where an engine never confirms.
pub(crate) fn without_haste() -> TerminationPolicy {
    TerminationPolicy::default().kill_confirmation(LIMIT)
}

/// Where `tests/setup` and `tests/containers` have put what they installed.
pub(crate) fn tools() -> PathBuf {
    let told = std::env::var_os("MCP_LIFECYCLE_TEST_TOOLS").map(PathBuf::from);
    told.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-tools").into())
}

/// One test: an engine, an observer, a ledger directory, and a name that only
/// this test's servers have.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) alive: AliveListener,
    pub(crate) ledgers: tempfile::TempDir,
    pub(crate) server: String,
}

impl Rig {
    /// `None` when told to skip.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Engine::of_environment().map(|engine| Self::on(engine, test))
    }

    pub(crate) fn on(engine: Engine, test: &str) -> Self {
        image(&engine);
        Self {
            engine,
            // In a thread: the observer starts a runtime of its own.
            alive: std::thread::spawn(AliveListener::unix)
                .join()
                .unwrap()
                .unwrap(),
            ledgers: tempfile::tempdir().unwrap(),
            server: format!("{test}-{}", std::process::id()),
        }
    }

    /// Removes its directories, which are then of no use any more.
    pub(crate) fn remove_files(&self) {
        std::fs::remove_dir_all(self.alive_directory()).unwrap();
        std::fs::remove_dir_all(self.ledgers.path()).unwrap();
    }

    /// Where the socket of the observer is.
    pub(crate) fn alive_directory(&self) -> PathBuf {
        let socket = self.alive.address();
        let socket = socket.trim_start_matches("unix:");
        PathBuf::from(socket.trim_end_matches("/s"))
    }

    pub(crate) fn launcher(&self) -> DockerLauncher {
        DockerLauncher::builder()
            .endpoint(Endpoint::from_url(&self.engine.host).unwrap())
            .ledger_directory(self.ledgers.path())
            .build()
            .unwrap()
    }

    pub(crate) fn options(&self) -> ContainerOptions {
        let directory = self.alive_directory();
        ContainerOptions::new(image::NAME)
            .network("none")
            .bind_writable(&directory, &directory)
    }

    /// The fixture, reporting to our observer.
    pub(crate) fn spec(&self, args: &[&str]) -> ServerSpec {
        self.spec_with(&self.options(), args)
    }

    pub(crate) fn spec_with(&self, options: &ContainerOptions, args: &[&str]) -> ServerSpec {
        let spec = ServerSpec::builder(&self.server, "/mcp-fixture")
            .args(args.iter().copied())
            .args(["--alive".to_owned(), self.alive.address()]);
        options.apply(spec).build().unwrap()
    }

    /// A server of the fixture that runs: it has said hello, and takes signals as it
    /// was told to.
    pub(crate) async fn launch(&self, args: &[&str]) -> LaunchedServer {
        self.launch_by(&self.launcher(), &self.spec(args)).await
    }

    /// The same, by this launcher.
    pub(crate) async fn launch_by(
        &self,
        launcher: &dyn ServerLauncher,
        spec: &ServerSpec,
    ) -> LaunchedServer {
        let server = launcher.launch(spec, &LaunchContext::new()).await.unwrap();
        self.alive.accept("server", LIMIT).await.unwrap();
        server
    }

    /// The containers of this test's servers, in any state.
    pub(crate) fn containers(&self) -> Vec<String> {
        let label = format!("dev.mcp-lifecycle.server={}", self.server);
        self.engine.by_label(&label)
    }

    /// Nothing of this test's servers is left, in the engine or alive.
    pub(crate) async fn assert_clean(&self) {
        let clean = async {
            while !self.containers().is_empty() {
                pause(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(LIMIT, clean).await.is_err() {
            let left = self.containers();
            let left: Vec<_> = left.iter().map(|id| self.engine.all_about(id)).collect();
            panic!("containers are left after {LIMIT:?}:\n{}", left.join("\n"));
        }
        self.alive.expect_all_dead(LIMIT).await.unwrap();
    }
}

/// Takes a launched server apart into its owner and what is read and written.
pub(crate) fn own(server: LaunchedServer) -> Owned {
    let parts = server.into_parts();
    let (handle, stdin) = ServerHandle::new("server", parts.stdin, parts.terminator);
    Owned {
        handle,
        stdin,
        stdout: parts.stdout,
        stderr: parts.stderr,
    }
}

pub(crate) struct Owned {
    pub(crate) handle: ServerHandle,
    pub(crate) stdin: mcp_lifecycle_core::terminate::ServerStdin,
    pub(crate) stdout: mcp_lifecycle_core::launch::BoxRead,
    pub(crate) stderr: Option<mcp_lifecycle_core::launch::BoxRead>,
}

impl Owned {
    pub(crate) async fn end(&self, policy: &TerminationPolicy) -> TerminationOutcome {
        in_time(
            "it ends",
            self.handle.terminate(policy, EndReason::Shutdown),
        )
        .await
    }
}

/// Looks until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        pause(Duration::from_millis(20)).await;
    }
}

/// Between two looks at something that has no event to wait for.
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Fails instead of hanging.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {LIMIT:?}: {what}"),
    }
}
