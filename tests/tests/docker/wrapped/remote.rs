//! Engines elsewhere: behind TCP, and behind TLS with certificates of both sides.

use std::net::TcpListener;
use std::path::Path;

use mcp_launcher_docker::ReapPolicy;
use mcp_lifecycle_core::launch::ServerSpec;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::{Shape, ends_clean};
use crate::support::{PrivateEngine, Rig};

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
