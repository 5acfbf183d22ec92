//! Which image is run, and where it comes from: a real registry that asks who
//! pulls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, DockerLauncher, Endpoint, PullPolicy};
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::{AcquireOptions, ServerManager, ServerPool};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};

use crate::registry::{PASSWORD, Registry};
use crate::support::{Engine, Host, LIMIT, Rig, image, in_time, is_host};

/// As a host whose environment says where its user's credentials are: pulls
/// the image that it is told, and says how that went.
async fn pull_as_host(told: &str) {
    let [host, image, seconds] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    // Events of other crates are not ours.
    tracing_subscriber::fmt()
        .with_writer(std::io::stdout)
        .with_ansi(false)
        .with_env_filter("mcp_launcher_docker=warn")
        .init();
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(host).unwrap())
        .pull(PullPolicy::Always)
        .pull_timeout(Duration::from_secs(seconds.parse().unwrap()))
        .build()
        .unwrap();
    let spec = ContainerOptions::new(image).server("s").build().unwrap();
    match launcher.prepare(&spec, &LaunchContext::new()).await {
        Ok(()) => println!("pulled"),
        Err(error) => println!("not pulled: {}", ErrorChain(&error)),
    }
}

/// The output of a host that pulls this image within so many seconds.
fn pulled(test: &str, registry: &Registry, engine: &Engine, image: &str, seconds: u64) -> String {
    let config = registry.directory.path().display();
    // Where the helper is.
    let path = format!("{config}:{}", std::env::var("PATH").unwrap());
    let told = format!("{} {image} {seconds}", engine.host);
    let variables = [("DOCKER_CONFIG", &*config.to_string()), ("PATH", &path)];
    Host::start_with(test, &told, &variables).output()
}

#[tokio::test]
async fn a_private_image_is_pulled_with_what_the_user_has_stored() {
    const NAME: &str = "images::a_private_image_is_pulled_with_what_the_user_has_stored";
    if let Some(told) = is_host() {
        return pull_as_host(&told).await;
    }
    let Some(engine) = Engine::of_environment() else {
        return;
    };
    image(&engine);
    let registry = Registry::start();
    let name = format!("private-{}:1", std::process::id());
    let digest = registry.push(&engine, &name);
    let pulled = |image: &str, config: serde_json::Value| {
        registry.stored(&config);
        pulled(NAME, &registry, &engine, image, 60)
    };
    let image = format!("{}/{name}", registry.address);
    let anonymous = pulled(&image, serde_json::json!({}));
    assert!(anonymous.contains("not pulled"), "{anonymous}");
    assert!(anonymous.contains("no basic auth"), "{anonymous}");
    for image in [&image, &digest] {
        let stored = pulled(image, registry.login());
        assert!(
            stored.lines().any(|line| line.ends_with("pulled")),
            "{stored}"
        );
        assert!(!stored.contains("not pulled"), "{stored}");
        engine.docker(&["rmi", image]);
    }
    let helper = serde_json::json!({"credHelpers": {&registry.address: "mcp-test"}});
    registry.helper(&format!(
        r#"cat >/dev/null; echo '{{"ServerURL":"x","Username":"u","Secret":"{PASSWORD}"}}'"#
    ));
    for config in [
        helper.clone(),
        serde_json::json!({"credsStore": "mcp-test"}),
    ] {
        let by_helper = pulled(&image, config);
        assert!(!by_helper.contains("not pulled"), "{by_helper}");
        engine.docker(&["rmi", &image]);
    }
    // What it prints may be a secret.
    registry.helper("cat >/dev/null; echo hunter2; exit 1");
    let failed = pulled(&image, helper);
    assert!(failed.contains("not pulled"), "{failed}");
    assert!(failed.contains("docker-credential-mcp-test"), "{failed}");
    assert!(!failed.contains("hunter2"), "{failed}");
}

/// Not "no credentials": the registry's refusal alone would send the user to log in again.
#[tokio::test]
async fn credentials_that_cannot_be_read_are_named_by_the_pull_that_fails() {
    const NAME: &str = "images::credentials_that_cannot_be_read_are_named_by_the_pull_that_fails";
    if let Some(told) = is_host() {
        return pull_as_host(&told).await;
    }
    let Some(engine) = Engine::of_environment() else {
        return;
    };
    let registry = Registry::start();
    let image = format!("{}/unread:1", registry.address);
    let pulled = |seconds| pulled(NAME, &registry, &engine, &image, seconds);
    let file = registry.directory.path().join("config.json");
    let named = |said: &str, problem: &str| {
        let error = said.lines().find(|line| line.contains("not pulled"));
        let error = error.unwrap_or_else(|| panic!("{said}"));
        for part in ["no basic auth", problem, file.to_str().unwrap()] {
            assert!(error.contains(part), "{part}: {said}");
        }
        assert!(said.contains("WARN"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    };
    std::fs::write(&file, r#"{"auths": {"x": {"auth": hunter2}}}"#).unwrap();
    named(&pulled(60), "line 1 column 26");
    std::fs::write(&file, r#"{"auths": ["hunter2"]}"#).unwrap();
    named(&pulled(60), "not a configuration of docker's");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    named(&pulled(60), "Is a directory");
    std::fs::remove_dir(&file).unwrap();

    let absent = pulled(60);
    assert!(absent.contains("no basic auth"), "{absent}");
    assert!(!absent.contains("config.json"), "{absent}");
    assert!(!absent.contains("WARN"), "{absent}");

    // One that hangs costs a part of the pull's time, and is named.
    registry.stored(&serde_json::json!({"credHelpers": {&registry.address: "mcp-test"}}));
    let held = registry.directory.path().join("held");
    nix::unistd::mkfifo(&held, nix::sys::stat::Mode::S_IRWXU).unwrap();
    registry.helper(&format!("exec 9>{}; sleep 300 & sleep 300", held.display()));
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Opened by the helper; at its end when nobody of it lives.
        let read = std::fs::read(held);
        let _ = sender.send(read.is_ok());
    });
    let begun = Instant::now();
    let hung = pulled(4);
    assert!(hung.contains("credential helper"), "{hung}");
    assert!(hung.contains("within 2s"), "{hung}");
    assert!(begun.elapsed() < LIMIT, "{hung}");
    assert_eq!(ended.recv_timeout(LIMIT), Ok(true), "the helper lives");
}

#[tokio::test]
async fn an_image_that_is_not_pinned_is_refused_where_that_is_asked_for() {
    let Some(rig) = Rig::new("pinned") else {
        return;
    };
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(&rig.engine.host).unwrap())
        .lease_directory(rig.leases.path())
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
    assert!(text.contains("image_id"), "{text}");
    let id = rig
        .engine
        .docker(&["inspect", "-f", "{{.Id}}", "mcp-fixture:test"]);
    let other = format!("sha256:{}", "0".repeat(64));
    let text = refused(rig.options().image_id(&other).pull(PullPolicy::Never)).await;
    assert!(text.contains("not present"), "{text}");
    assert!(text.contains(&other), "{text}");

    let spec = rig.spec_with(&rig.options().image_id(&id), &["plain"]);
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

/// The tag was pushed again, by somebody else.
#[tokio::test]
async fn an_image_that_has_changed_behind_its_name_is_not_run() {
    const NAME: &str = "images::an_image_that_has_changed_behind_its_name_is_not_run";
    if let Some(told) = is_host() {
        let parts: Vec<&str> = told.split(' ').collect();
        let launcher = DockerLauncher::builder()
            .endpoint(Endpoint::from_url(parts[0]).unwrap())
            .lease_directory(parts[3])
            .build()
            .unwrap();
        let options = ContainerOptions::new(parts[1]).image_id(parts[2]);
        let spec = options.server("changed").build().unwrap();
        match launcher.launch(&spec, &LaunchContext::new()).await {
            Ok(_) => println!("launched"),
            Err(error) => println!("not launched: {}", ErrorChain(&error)),
        }
        return;
    }
    let Some(rig) = Rig::new("changed") else {
        return;
    };
    let registry = Registry::start();
    let name = format!("changed-{}:1", std::process::id());
    registry.push(&rig.engine, &name);
    let other = format!("sha256:{}", "0".repeat(64));
    let config = registry.stored(&registry.login());
    let told = format!(
        "{} {}/{name} {other} {}",
        rig.engine.host,
        registry.address,
        rig.leases.path().display()
    );
    let variables = [("DOCKER_CONFIG", config.to_str().unwrap())];
    let said = Host::start_with(NAME, &told, &variables).output();
    assert!(said.contains("not launched"), "{said}");
    assert!(said.contains("is not the expected one"), "{said}");
    rig.assert_clean().await;
}

/// Shorter than the pull, and longer than a container takes to start. The engine gives a registry
/// 15 s for its first answer.
const START_UP: Duration = Duration::from_secs(10);
const PULL: Duration = Duration::from_secs(12);

/// As a host: starts one server by a manager and one by a pool, of these images.
async fn start_as_host(told: &str) {
    let [host, leases, server, managed, pooled] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(host).unwrap())
        .lease_directory(leases)
        .build();
    let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher.unwrap());
    let config = |image: &str| {
        let spec = ServerSpec::builder(server, "/mcp-fixture").arg("plain");
        let spec = ContainerOptions::new(image).network("none").apply(spec);
        ServerConfig::new(Arc::clone(&launcher), spec.build().unwrap())
            .with_startup_timeout(START_UP)
    };
    let managed = async {
        let manager = ServerManager::new("m");
        let report = manager.refresh([config(managed)]).await.unwrap();
        println!("managed: {} ready, {report:?}", report.ready());
        manager.shutdown(LIMIT).await.unwrap();
    };
    let pooled = async {
        let pool = ServerPool::new("p");
        let patient = AcquireOptions::new().with_timeout(LIMIT * 4);
        let lease = pool.acquire_with(&config(pooled), &patient).await;
        println!("pooled: {:?}", lease.map(drop));
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
    let config = registry.stored(&Registry::login_at(&slow));
    let leases = rig.leases.path().display();
    let [managed, pooled] = &names;
    let told = format!(
        "{} {leases} {} {managed} {pooled}",
        rig.engine.host, rig.server
    );
    let variables = [("DOCKER_CONFIG", config.to_str().unwrap())];
    let begun = Instant::now();
    let said = Host::start_with(NAME, &told, &variables).output();
    assert!(begun.elapsed() > START_UP, "the pull was quick: {said}");
    assert!(said.contains("managed: 1 ready"), "{said}");
    assert!(said.contains("pooled: Ok"), "{said}");
    rig.assert_clean().await;
    rig.engine.docker(&["rmi", managed, pooled]);
}
