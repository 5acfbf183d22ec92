//! Engines elsewhere: behind TCP, and behind TLS with certificates of both sides.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_launcher_docker::{DockerLauncher, Endpoint, ReapPolicy};
use mcp_lifecycle_core::launch::ServerSpec;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::{Shape, ends_clean, policy};
use crate::ssh::Sshd;
use crate::support::{Host, LIMIT, PrivateEngine, Rig, is_host, own};

/// A port of 127.0.0.1 that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// An authority and a certificate that is good for both sides, under the names
/// that the docker CLI expects.
fn certificates(directory: &Path) {
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    write("ca.pem", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate().unwrap();
    write("cert.pem", params.signed_by(&key, &issuer).unwrap().pem());
    write("key.pem", key.serialize_pem());
}

/// The server's environment says where its engine is, as a user's would.
fn elsewhere(rig: &Rig, script: &str, variables: &[(&str, &str)]) -> ServerSpec {
    let wrapped = rig.wrapped("sh", &["-c", script]);
    let mut spec = ServerSpec::builder(&rig.server, "sh").args(["-c", script]);
    for (name, value) in wrapped.env().literals() {
        spec = spec.env(name, value);
    }
    for (name, value) in variables {
        spec = spec.env(*name, *value);
    }
    spec.build().unwrap()
}

const DETACHED: &str = "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";

#[tokio::test]
async fn containers_at_an_engine_behind_tcp_are_tracked() {
    let host = format!("tcp://127.0.0.1:{}", port());
    if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
        eprintln!("skipped: MCP_DOCKER_TESTS=skip");
        return;
    }
    let engine = PrivateEngine::start(&["--host", &host, "--tls=false"]);
    let rig = Rig::on(engine.engine.clone(), "tcp");
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let spec = elsewhere(&rig, DETACHED, &[("DOCKER_HOST", &host)]);
    ends_clean(&rig, &tracker, &spec, Shape::Speaks).await;
}

#[tokio::test]
async fn containers_at_an_engine_behind_ssh_are_tracked() {
    const NAME: &str = "wrapped::remote::containers_at_an_engine_behind_ssh_are_tracked";
    if let Some(url) = is_host() {
        let rig = Rig::new("ssh-tracked").unwrap();
        let tracker = rig.tracker().reap(ReapPolicy::All);
        let spec = elsewhere(&rig, DETACHED, &[("DOCKER_HOST", &url)]);
        ends_clean(&rig, &tracker, &spec, Shape::Speaks).await;
        return println!("ended clean");
    }
    let Some(rig) = Rig::new("ssh-tracker") else {
        return;
    };
    let sshd = Sshd::start(&rig.engine.host);
    let path = [("PATH", &*sshd.path())];
    let said = Host::start_with(NAME, &sshd.url(), &path).output();
    assert!(said.contains("ended clean"), "{said}");
}

/// Passes bytes on between its clients and the engine, until it does not any more: a
/// peer that has vanished, and says nothing of it.
struct Road {
    port: u16,
    is_closed: Arc<AtomicBool>,
}

impl Road {
    fn to(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_closed = Arc::new(AtomicBool::new(false));
        let (closed, engine) = (Arc::clone(&is_closed), engine.to_owned());
        // Ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let engine = UnixStream::connect(&engine).unwrap();
                let (from, to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
                let is_closed = Arc::clone(&closed);
                std::thread::spawn(move || {
                    carry(&from, &to, &is_closed);
                    let _ = to.shutdown(Shutdown::Write);
                });
                let is_closed = Arc::clone(&closed);
                std::thread::spawn(move || {
                    carry(&engine, &client, &is_closed);
                    let _ = client.shutdown(Shutdown::Write);
                });
            }
        });
        Self { port, is_closed }
    }
}

fn carry(mut from: impl Read, mut to: impl Write, is_closed: &AtomicBool) {
    let mut some = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut some) {
        while is_closed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if to.write_all(&some[..n]).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn an_engine_that_vanishes_costs_a_bounded_time_and_no_proof() {
    let Some(rig) = Rig::new("vanished") else {
        return;
    };
    let road = Road::to(rig.engine.host.trim_start_matches("unix://"));
    let address = format!("127.0.0.1:{}", road.port);
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::Tcp(address.clone()))
        .ledger_directory(rig.ledgers.path())
        .build()
        .unwrap();
    let server = own(rig
        .launch_by(&launcher, &rig.spec(&["ignore-eof-term"]))
        .await);
    road.is_closed.store(true, Ordering::SeqCst);
    // A request may take 30 s; the end itself is given twice this time.
    let limit = policy().kill_confirmation(Duration::from_secs(40));
    let error = server.end(&limit).await.unwrap_err().to_string();
    assert!(error.contains(&address), "{error}");
    assert_eq!(rig.containers().len(), 1, "it lives: {error}");
    road.is_closed.store(false, Ordering::SeqCst);
    let limit = policy().kill_confirmation(LIMIT);
    server.end(&limit).await.unwrap();
    rig.assert_clean().await;
}

#[tokio::test]
async fn containers_at_an_engine_behind_tls_are_tracked() {
    if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
        eprintln!("skipped: MCP_DOCKER_TESTS=skip");
        return;
    }
    let host = format!("tcp://127.0.0.1:{}", port());
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let engine = PrivateEngine::start(&[
        "--host",
        &host,
        "--tlsverify",
        "--tlscacert",
        &at("ca.pem"),
        "--tlscert",
        &at("cert.pem"),
        "--tlskey",
        &at("key.pem"),
    ]);
    let rig = Rig::on(engine.engine.clone(), "tls");
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let certificates = directory.path().to_str().unwrap();
    let variables = [
        ("DOCKER_HOST", host.as_str()),
        ("DOCKER_TLS_VERIFY", "1"),
        ("DOCKER_CERT_PATH", certificates),
    ];
    // As it is without a tracker.
    let direct = std::process::Command::new("docker")
        .arg("version")
        .envs(variables)
        .output()
        .unwrap();
    assert!(direct.status.success(), "{direct:?}");
    let spec = elsewhere(&rig, DETACHED, &variables);
    ends_clean(&rig, &tracker, &spec, Shape::Speaks).await;
}

/// The host's `DOCKER_HOST` is not in what a server inherits.
#[tokio::test]
async fn a_server_that_names_no_engine_has_its_hosts() {
    let Some(rig) = Rig::new("inherited") else {
        return;
    };
    let host = std::env::var("DOCKER_HOST");
    assert!(
        host.is_ok() || rig.engine.host == "unix:///var/run/docker.sock",
        "the engine of the test is that of its environment"
    );
    let wrapped = rig.wrapped("sh", &["-c", DETACHED]);
    let mut spec = ServerSpec::builder(&rig.server, "sh").args(["-c", DETACHED]);
    for (name, value) in wrapped.env().literals() {
        if name != "DOCKER_HOST" && name != "SOCKET" {
            spec = spec.env(name, value);
        }
    }
    let tracker = rig.tracker().reap(ReapPolicy::All);
    ends_clean(&rig, &tracker, &spec.build().unwrap(), Shape::Speaks).await;
}
