//! Which image is run, and where it comes from: a real registry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, DockerLauncher, Endpoint, PullPolicy};
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::{ServerManager, ServerPool};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};

use crate::registry::{PASSWORD, Registry};
use crate::support::{Host, LIMIT, Rig, in_time, is_host};

/// As a host: pulls an image, and prints the outcome.
async fn pull_as_host(told: &str) {
    let (host, image) = told.split_once(' ').unwrap();
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(host).unwrap())
        .pull(PullPolicy::Always)
        .build()
        .unwrap();
    let spec = ContainerOptions::new(image).server("s").build().unwrap();
    match launcher.prepare(&spec, &LaunchContext::new()).await {
        Ok(()) => println!("pulled"),
        Err(error) => println!("refused: {}", ErrorChain(&error)),
    }
}

#[tokio::test]
async fn a_private_image_is_pulled_with_stored_credentials() {
    const NAME: &str = "images::a_private_image_is_pulled_with_stored_credentials";
    if let Some(told) = is_host() {
        return pull_as_host(&told).await;
    }
    let Some(rig) = Rig::new("private") else {
        return;
    };
    let registry = Registry::private();
    let name = format!("private-{}:1", std::process::id());
    registry.push(&rig.engine, &name);
    let image = format!("{}/{name}", registry.address);
    let pull = |config: &serde_json::Value| {
        let directory = registry.configure(config);
        let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
        let told = format!("{} {image}", rig.engine.host);
        let variables = [("DOCKER_CONFIG", directory), ("PATH", &path)];
        Host::start_with(NAME, &told, &variables).output()
    };
    let refused = pull(&serde_json::json!({}));
    for part in ["no basic auth", "docker login"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    registry.helper(&format!(
        r#"cat >/dev/null; echo '{{"Username":"u","Secret":"{PASSWORD}"}}'"#
    ));
    let helper = serde_json::json!({"credHelpers": {&registry.address: "mcp-test"}});
    for config in [&registry.login(), &helper] {
        let said = pull(config);
        assert!(said.contains("pulled"), "{said}");
        rig.engine.docker(&["rmi", &image]);
    }
    registry.helper("cat >/dev/null; echo hunter2; exit 1");
    let refused = pull(&helper);
    for part in ["no basic auth", "docker-credential-mcp-test failed"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(!refused.contains("hunter2"), "{refused}");
}

#[tokio::test]
async fn an_image_that_is_not_pinned_is_refused_where_that_is_asked_for() {
    let Some(rig) = Rig::new("pinned") else {
        return;
    };
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(&rig.engine.host).unwrap())
        .ledger_directory(rig.ledgers.path())
        .require_pinned(true)
        .build()
        .unwrap();
    let refused = async |options: ContainerOptions| {
        let spec = rig.spec_with(&options, &["plain"]);
        let launch = in_time(
            "it is refused",
            launcher.launch(&spec, &LaunchContext::new()),
        )
        .await;
        ErrorChain(&launch.unwrap_err()).to_string()
    };
    let text = refused(rig.options()).await;
    assert!(text.contains("pinned"), "{text}");
    let id = rig
        .engine
        .docker(&["inspect", "-f", "{{.Id}}", "mcp-fixture:test"]);
    let other = format!("sha256:{}", "0".repeat(64));
    let text = refused(ContainerOptions::new(&other).pull(PullPolicy::Always)).await;
    assert!(text.contains("not present"), "{text}");
    assert!(text.contains(&other), "{text}");

    let directory = rig.alive_directory();
    let options = ContainerOptions::new(&id).network("none");
    let options = options.bind_writable(&directory, &directory);
    let spec = rig.spec_with(&options, &["plain"]);
    let server = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
    let container = &rig.containers()[0];
    assert_eq!(
        rig.engine
            .docker(&["inspect", "-f", "{{.Image}}", container]),
        id
    );
    drop(server);
    rig.assert_clean().await;
}

/// Shorter than the pull, and longer than a container takes to start. The engine gives a registry
/// 15 s for its first answer.
const START_UP: Duration = Duration::from_secs(10);
const PULL: Duration = Duration::from_secs(12);

/// As a host: starts one server by a manager and one by a pool, of these images.
async fn start_as_host(told: &str) {
    let [host, ledgers, server, managed, pooled] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(host).unwrap())
        .ledger_directory(ledgers)
        .build();
    let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher.unwrap());
    let config = |image: &str| {
        let spec = ServerSpec::builder(server, "/mcp-fixture").arg("plain");
        let spec = ContainerOptions::new(image).network("none").apply(spec);
        ServerConfig::new(Arc::clone(&launcher), spec.build().unwrap()).startup_timeout(START_UP)
    };
    let managed = async {
        let manager = ServerManager::new("m");
        let report = manager.refresh([config(managed)]).await.unwrap();
        println!("managed: {} ready, {report:?}", report.ready());
        manager.shutdown(LIMIT).await.unwrap();
    };
    let pooled = async {
        let pool = ServerPool::new("p");
        let patient = LIMIT * 4;
        let ledger = pool.acquire_within(&config(pooled), patient).await;
        println!("pooled: {:?}", ledger.map(drop));
        pool.shutdown(LIMIT).await.unwrap();
    };
    tokio::join!(managed, pooled);
}

#[tokio::test]
async fn a_pull_that_is_longer_than_the_start_up_deadline_does_not_use_it_up() {
    const NAME: &str =
        "images::a_pull_that_is_longer_than_the_start_up_deadline_does_not_use_it_up";
    if let Some(told) = is_host() {
        return start_as_host(&told).await;
    }
    let Some(rig) = Rig::new("slow-pull") else {
        return;
    };
    let registry = Registry::start();
    let slow = registry.behind_a_slow_line(PULL);
    let names = ["managed", "pooled"].map(|name| {
        let name = format!("{name}-{}:1", std::process::id());
        registry.push(&rig.engine, &name);
        format!("{slow}/{name}")
    });
    let ledgers = rig.ledgers.path().display();
    let [managed, pooled] = &names;
    let told = format!(
        "{} {ledgers} {} {managed} {pooled}",
        rig.engine.host, rig.server
    );
    let begun = Instant::now();
    let said = Host::start_with(NAME, &told, &[]).output();
    assert!(begun.elapsed() > START_UP, "the pull was quick: {said}");
    assert!(said.contains("managed: 1 ready"), "{said}");
    assert!(said.contains("pooled: Ok"), "{said}");
    rig.assert_clean().await;
    rig.engine.docker(&["rmi", managed, pooled]);
}
