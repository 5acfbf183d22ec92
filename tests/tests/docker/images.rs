//! Which image is run, and where it comes from: a real registry that asks who
//! pulls.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, DockerLauncher, Endpoint, PullPolicy};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher};

use crate::support::{Engine, Host, Rig, image, in_time, is_host};

/// In base64 its header has a `/`, which is another character in the alphabet
/// that the engine reads.
const PASSWORD: &str = "a?b>~c?~";
const USER_AND_PASSWORD: &str = "dTphP2I+fmM/fg==";
const HASHED: &str = "$2b$04$5Ecq/A3AGtRbFQsc0KxNce3NFuMaZFC1RVjTdEYZQkrv09QsJKmh6";

/// Debian's `docker-registry`, with one user.
struct Registry {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Registry {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("users"), format!("u:{HASHED}\n")).unwrap();
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nhttp: {{addr: '127.0.0.1:0'}}\n\
             storage: {{filesystem: {{rootdir: {}}}}}\n\
             auth: {{htpasswd: {{realm: mcp, path: {}}}}}\n",
            at("data").display(),
            at("users").display()
        );
        std::fs::write(at("config.yml"), config).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(at("config.yml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker-registry is installed by tests/containers");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("listening on ")?;
            let address = rest.split(['"', ' ', ',']).next()?;
            Some(address.to_owned())
        });
        // Its log has to be read for as long as it lives.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: address.expect("it says where it listens"),
            directory,
        }
    }

    /// What `docker login` writes.
    fn stored(&self, config: &serde_json::Value) -> &Path {
        let path = self.directory.path();
        std::fs::write(path.join("config.json"), config.to_string()).unwrap();
        path
    }

    fn login(&self) -> serde_json::Value {
        serde_json::json!({"auths": {&self.address: {"auth": USER_AND_PASSWORD}}})
    }

    /// Makes the program that `credHelpers` call `mcp-test`.
    fn helper(&self, script: &str) {
        let program = self.directory.path().join("docker-credential-mcp-test");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
    }

    /// Puts the fixture there under this name, and nowhere else. Its digest.
    fn push(&self, engine: &Engine, name: &str) -> String {
        let name = format!("{}/{name}", self.address);
        let config = self.stored(&self.login()).to_str().unwrap().to_owned();
        engine.docker(&["tag", "mcp-fixture:test", &name]);
        engine.docker(&["--config", &config, "push", "-q", &name]);
        let digests = engine.docker(&["inspect", "-f", "{{join .RepoDigests \"\\n\"}}", &name]);
        let ours = |digest: &&str| digest.starts_with(&self.address);
        let digest = digests.lines().find(ours).unwrap().to_owned();
        engine.docker(&["rmi", &name]);
        digest
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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

/// What a host says that pulls this image within so many seconds.
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
    let by_helper = pulled(&image, helper.clone());
    assert!(!by_helper.contains("not pulled"), "{by_helper}");
    engine.docker(&["rmi", &image]);
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
    registry.helper("exec sleep 15");
    let begun = Instant::now();
    let hung = pulled(4);
    assert!(hung.contains("credential helper"), "{hung}");
    assert!(hung.contains("within 2s"), "{hung}");
    assert!(begun.elapsed() < Duration::from_secs(12), "{hung}");
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
