//! Launching: the streams, and nothing left of a launch that did not happen.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_launcher_docker::DockerLauncher;
use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::{
    ErrorChain, ExitStatus, LaunchContext, LaunchError, LaunchedServer, ReapError, ReapReport,
    Remnant, ServerLauncher, ServerSpec, TerminationSemantics,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Engine, Host, PrivateEngine, Rig, eventually, in_time, is_host, own, pause, without_haste,
};

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}
"#;

#[tokio::test]
async fn the_first_output_and_the_exit_code_of_a_short_life_are_not_lost() {
    let Some(rig) = Rig::new("short-life") else {
        return;
    };
    let args = ["crash-loop", "--code", "7", "--stderr", "the reason"];
    for _ in 0..5 {
        let mut server = own(rig.launch(&args).await);
        let mut text = String::new();
        let stderr = server.stderr.as_mut().unwrap();
        in_time("stderr ends", stderr.read_to_string(&mut text))
            .await
            .unwrap();
        assert!(text.contains("the reason"), "{text:?}");
        let exit = in_time("it exits", server.handle.exited()).await;
        assert_eq!(exit, ExitStatus::Code(7));
        let report = server.end(&without_haste()).await;
        assert_eq!(report.unwrap().exit, ExitStatus::Code(7));
    }
    rig.assert_clean().await;
}

#[tokio::test]
async fn a_half_close_ends_the_server_and_what_it_still_says_arrives() {
    let Some(rig) = Rig::new("half-close") else {
        return;
    };
    let mut server = own(rig.launch(&["plain"]).await);
    server.stdin.write_all(INITIALIZE).await.unwrap();
    server.stdin.shutdown().await.unwrap();
    let mut text = String::new();
    in_time("stdout ends", server.stdout.read_to_string(&mut text))
        .await
        .unwrap();
    assert!(text.contains("serverInfo"), "{text:?}");
    let exit = in_time("it exits", server.handle.exited()).await;
    assert_eq!(exit, ExitStatus::Code(0));
    rig.assert_clean().await;
}

#[tokio::test]
async fn dropping_stdin_closes_it() {
    let Some(rig) = Rig::new("drop-stdin") else {
        return;
    };
    let server = own(rig.launch(&["plain"]).await);
    drop(server.stdin);
    let exit = in_time("it exits", server.handle.exited()).await;
    assert_eq!(exit, ExitStatus::Code(0));
    rig.assert_clean().await;
}

/// At every instant of a launch: before the create, within it, before and
/// within the start, and after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_launch_leaves_no_container() {
    let Some(rig) = Rig::new("cancelled") else {
        return;
    };
    let launcher = rig.launcher();
    let spec = rig.spec(&["ignore-eof-term"]);
    let begun = std::time::Instant::now();
    drop(launcher.launch(&spec, &LaunchContext::new()).await.unwrap());
    let whole = begun.elapsed();
    // Densely where the create and the attach are.
    let instants = (0..30).map(Duration::from_millis);
    for instant in instants.chain((1..30).map(|n| whole * n / 24)) {
        let context = LaunchContext::new();
        let launch = launcher.launch(&spec, &context);
        drop(tokio::time::timeout(instant, launch).await);
    }
    rig.assert_clean().await;
    // Nothing that was under way shows up late.
    pause(Duration::from_secs(1)).await;
    let left = rig.containers();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_failed_launch_says_why_and_leaves_nothing() {
    let Some(rig) = Rig::new("failed") else {
        return;
    };
    let launch = |options: mcp_launcher_docker::ContainerOptions| {
        let (launcher, spec) = (rig.launcher(), rig.spec_with(&options, &["plain"]));
        async move {
            ErrorChain(
                &launcher
                    .launch(&spec, &LaunchContext::new())
                    .await
                    .unwrap_err(),
            )
            .to_string()
        }
    };
    let options = rig.options().image("no-such-image:1");
    let options = options.pull(mcp_launcher_docker::PullPolicy::Never);
    let text = launch(options).await;
    assert!(text.contains("`no-such-image:1` is not present"), "{text}");

    let options = rig.options().user("nobody-of-that-name");
    let text = launch(options).await;
    assert!(text.contains("nobody-of-that-name"), "{text}");

    // The engine's init would be started well, and fail by itself.
    let options = rig.options().init(mcp_launcher_docker::Init::None);
    let spec = mcp_lifecycle_core::launch::ServerSpec::builder(&rig.server, "/no-such-program");
    let spec = options.apply(spec);
    let error = rig
        .launcher()
        .launch(&spec.build().unwrap(), &LaunchContext::new())
        .await;
    let text = ErrorChain(&error.unwrap_err()).to_string();
    assert!(text.contains("/no-such-program"), "{text}");
    rig.assert_clean().await;
}

#[tokio::test]
async fn a_pull_has_its_own_deadline() {
    let Some(rig) = Rig::new("pull") else {
        return;
    };
    // A registry that takes the connection and never answers.
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/none:1", registry.local_addr().unwrap());
    let options = rig.options().image(image);
    let launcher = mcp_launcher_docker::DockerLauncher::builder()
        .endpoint(rig.launcher().endpoint().clone())
        .ledger_directory(rig.ledgers.path())
        .pull_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    let spec = rig.spec_with(&options, &["plain"]);
    let error = in_time(
        "the pull gives up",
        launcher.prepare(&spec, &LaunchContext::new()),
    )
    .await;
    let text = ErrorChain(&error.unwrap_err()).to_string();
    assert!(text.contains("longer than 300ms"), "{text}");
}

#[tokio::test]
async fn no_engine_is_an_error_that_names_the_endpoint() {
    let ledgers = tempfile::tempdir().unwrap();
    let launcher = mcp_launcher_docker::DockerLauncher::builder()
        .endpoint(mcp_launcher_docker::Endpoint::Unix("/no/such.sock".into()))
        .ledger_directory(ledgers.path())
        .image("img")
        .build()
        .unwrap();
    let spec = mcp_lifecycle_core::launch::ServerSpec::builder("s", "p").build();
    let error = launcher
        .launch(&spec.unwrap(), &LaunchContext::new())
        .await
        .unwrap_err();
    let text = ErrorChain(&error).to_string();
    assert!(text.contains("unix:///no/such.sock"), "{text}");
}

#[tokio::test]
async fn the_ledger_file_goes_with_the_last_container() {
    let Some(rig) = Rig::new("ledger-file") else {
        return;
    };
    let files = || {
        let entries = std::fs::read_dir(rig.ledgers.path()).unwrap();
        entries
            .filter(|e| e.as_ref().unwrap().path().extension().is_some())
            .count()
    };
    let server = rig.launch(&["plain"]).await;
    assert_eq!(files(), 1);
    drop(server);
    rig.assert_clean().await;
    eventually("the ledger is given back", || files() == 0).await;
}

/// Launches at an engine that is stopped by then.
#[derive(Debug)]
struct AtAStoppedEngine(DockerLauncher, nix::unistd::Pid);

#[async_trait]
impl ServerLauncher for AtAStoppedEngine {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn semantics(&self) -> TerminationSemantics {
        self.0.semantics()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        nix::sys::signal::kill(self.1, nix::sys::signal::Signal::SIGSTOP).unwrap();
        self.0.launch(spec, context).await
    }

    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        self.0.unfinished(server)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        self.0.reap_orphans().await
    }
}

/// The engine is too busy to answer a create in time, and then its host exits.
#[tokio::test]
async fn a_create_that_outlives_its_start_is_named_and_undone() {
    const TEST: &str = "launches::a_create_that_outlives_its_start_is_named_and_undone";
    if let Some(job) = is_host() {
        let [host, server, pid] = job.split('|').collect::<Vec<_>>()[..] else {
            panic!("{job}");
        };
        let engine = Engine {
            host: host.to_owned(),
        };
        let rig = Rig::on(engine, "late");
        let spec = ServerSpec::builder(server, "/mcp-fixture").arg("ignore-eof-term");
        let spec = rig.options().apply(spec).build().unwrap();
        let launcher = rig.launcher();
        // It has been greeted, and its last will runs.
        drop(launcher.launch(&spec, &LaunchContext::new()).await.unwrap());
        eventually("it is gone", || engine_has(&rig, server) == 0).await;
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        let launcher = Arc::new(AtAStoppedEngine(launcher, pid));
        let start = LifecycleClient::builder(
            ServerConfig::new(launcher, spec).startup_timeout(Duration::from_secs(1)),
        )
        .start();
        let error = start.await.unwrap_err();
        let text = error.to_string();
        let unfinished = &error.context().unfinished;
        let named = unfinished.iter().all(|one| text.contains(&one.name));
        println!("{text}\n{} named {named}", unfinished.len());
        // A host in order, and no destructor.
        std::process::exit(0);
    }
    if Engine::of_environment().is_none() {
        return;
    }
    let private = PrivateEngine::start(&[]);
    let rig = Rig::on(private.engine.clone(), "late");
    let pid = private.pid().unwrap();
    let mut host = Host::start(TEST, &format!("{}|{}|{pid}", rig.engine.host, rig.server));
    host.wait_for("1 named true");
    host.wait();
    let engine = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(engine, nix::sys::signal::Signal::SIGCONT).unwrap();
    rig.assert_clean().await;
    // The create may come true only now.
    pause(Duration::from_secs(2)).await;
    rig.assert_clean().await;
}

fn engine_has(rig: &Rig, server: &str) -> usize {
    let label = format!("dev.mcp-lifecycle.server={server}");
    rig.engine.by_label(&label).len()
}
