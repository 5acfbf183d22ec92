//! An engine that is slow, or not the one that it was.

use std::time::Duration;

use mcp_launcher_docker::{DockerLauncher, Endpoint};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};

use crate::support::{Host, PrivateEngine, Rig, eventually, in_time, is_host, own, without_haste};

fn is_skipped() -> bool {
    let is = std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip");
    if is {
        eprintln!("skipped: MCP_DOCKER_TESTS=skip");
    }
    is
}

fn launcher(host: &str, ledgers: &str) -> DockerLauncher {
    let builder = DockerLauncher::builder().endpoint(Endpoint::from_url(host).unwrap());
    builder.ledger_directory(ledgers).build().unwrap()
}

/// A busy disk, stood in for by a daemon that was stopped.
#[tokio::test]
async fn a_create_that_comes_true_after_its_host_has_left_is_undone() {
    const ME: &str = "odd_engine::a_create_that_comes_true_after_its_host_has_left_is_undone";
    if let Some(job) = is_host() {
        let [host, ledgers, server] = job.split('|').collect::<Vec<_>>()[..] else {
            panic!("{job}");
        };
        let launcher = launcher(host, ledgers);
        let options = mcp_launcher_docker::ContainerOptions::new("mcp-fixture:test");
        let spec = |args: &str| {
            let spec = mcp_lifecycle_core::launch::ServerSpec::builder(server, "/mcp-fixture");
            options
                .clone()
                .network("none")
                .apply(spec.arg(args))
                .build()
                .unwrap()
        };
        // It knows the engine before that stops.
        let first = own(launcher
            .launch(&spec("plain"), &LaunchContext::new())
            .await
            .unwrap());
        first.end(&without_haste()).await.unwrap();
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        let late = spec("ignore-eof-term");
        let context = LaunchContext::new();
        let launch = launcher.launch(&late, &context);
        let limited = tokio::time::timeout(Duration::from_secs(2), launch).await;
        assert!(limited.is_err());
        return;
    }
    if is_skipped() {
        return;
    }
    let engine = PrivateEngine::start(&[]);
    let rig = Rig::on(engine.engine.clone(), "late");
    let job = format!(
        "{}|{}|{}",
        rig.engine.host,
        rig.ledgers.path().display(),
        rig.server
    );
    let mut host = Host::start_told(ME, &job);
    host.wait_for("ready");
    engine.freeze(true);
    host.tell("go");
    host.wait();
    engine.freeze(false);
    // It comes true, or has come and gone; the last will looks for it for longer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    eventually("nothing is left", || rig.containers().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.containers().is_empty());
}

/// Forwards bytes to an engine until it is told to forget the connections that
/// there are: these stay open, and nothing comes through any more. New ones work.
struct Router {
    address: String,
    forget: tokio::sync::watch::Sender<u32>,
}

impl Router {
    async fn to(socket: String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (forget, forgotten) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut engine = tokio::net::UnixStream::connect(&socket).await.unwrap();
                let mut forgotten = forgotten.clone();
                forgotten.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut engine) => {}
                        _ = forgotten.changed() => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, forget }
    }
}

#[tokio::test]
async fn an_exit_is_learned_though_the_connections_to_a_remote_engine_died() {
    let Some(rig) = Rig::new("router") else {
        return;
    };
    let socket = rig.engine.host.trim_start_matches("unix://").to_owned();
    let router = Router::to(socket).await;
    let ledgers = rig.ledgers.path().to_str().unwrap();
    let launcher = launcher(&format!("tcp://{}", router.address), ledgers);
    let server = rig
        .launch_by(&launcher, &rig.spec(&["ignore-eof-term"]))
        .await;
    let mut parts = server.into_parts();
    router.forget.send_modify(|generation| *generation += 1);
    rig.engine.docker(&["rm", "-f", &rig.containers()[0]]);
    let exited = tokio::time::timeout(Duration::from_secs(90), parts.terminator.exited());
    exited.await.expect("the exit is learned");
    parts.terminator.gone().await.unwrap();
    // Its connection has no end: nothing is kept for it.
    let mut rest = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(&mut parts.stdout, &mut rest);
    in_time("the output ends", end).await.unwrap();
    rig.assert_clean().await;
}
