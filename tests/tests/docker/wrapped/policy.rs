//! Which containers end, which stay, and what is left on the disk.

use mcp_launcher_docker::ContainerTracker;
use mcp_lifecycle_core::launch::{LaunchContext, RemnantKind, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationReport;

use super::proxy::Tracked;
use super::{Shape, drain, ends_clean, policy};
use crate::support::{Rig, eventually};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// The command itself is `docker run`, and says which engine: no proxy, labels.
#[tokio::test]
async fn labels_in_the_command_line() {
    let Some(rig) = Rig::new("labelled") else {
        return;
    };
    let plain = rig.wrapped("sh", &[]);
    let env = |name: &str| {
        let mut all = plain.env().literals();
        let found = all.find(|(found, _)| *found == name).unwrap();
        found.1.to_str().unwrap().to_owned()
    };
    let command = format!(
        "-H {} run -i --rm {} {}",
        rig.engine.host,
        env("RUN"),
        env("PAYLOAD")
    );
    let args: Vec<&str> = command.split(' ').collect();
    let spec = rig.wrapped("docker", &args);
    ends_clean(&rig, &rig.tracker(), &spec, Shape::Speaks).await;
    // And without -H, by the proxy.
    let spec = rig.wrapped("docker", &args[2..]);
    ends_clean(&rig, &rig.tracker(), &spec, Shape::Speaks).await;
}

#[tokio::test]
async fn what_is_detached_stays_and_is_reported_and_strangers_are_not_touched() {
    let Some(rig) = Rig::new("policy") else {
        return;
    };
    let label = format!("test={}", rig.server);
    let stranger = |name: &str| {
        rig.engine.docker(&[
            "run",
            "-d",
            "--network=none",
            "--name",
            name,
            "--label",
            &label,
            "mcp-fixture:test",
            "/mcp-fixture",
            "ignore-eof-term",
        ])
    };
    let before = stranger(&format!("mcp-{}-before", rig.server));
    let script = "docker run -d $RUN $PAYLOAD; docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";
    let server = rig.script(script, 2).await;
    let during = stranger(&format!("mcp-{}-during", rig.server));
    let report: std::sync::Arc<TerminationReport> = server.end(&policy()).await.unwrap();
    let names = |list: &[mcp_lifecycle_core::launch::Remnant]| -> Vec<String> {
        list.iter().map(|remnant| remnant.id.clone()).collect()
    };
    let reported = names(&report.gone.reported);
    assert_eq!(reported.len(), 1, "{report}");
    let mut left = rig.started();
    left.sort();
    let mut expected = vec![before, during, reported[0].clone()];
    expected.sort();
    assert_eq!(left, expected, "{report}");
    // Also not by the next start, once the host is dead.
    let report = rig.tracker().reap_orphans().await.unwrap();
    assert!(
        names(&report.ended).is_empty(),
        "{:?}",
        names(&report.ended)
    );
    for id in rig.started() {
        rig.engine.docker(&["rm", "-f", &id]);
    }
}

#[tokio::test]
async fn a_server_that_never_uses_docker_leaves_no_socket() {
    let Some(rig) = Rig::new("unused") else {
        return;
    };
    let tracker = rig.tracker();
    let mut tracked = Tracked::launch(&rig, &tracker).await;
    drain(&mut tracked.server);
    assert!(tracked.socket.exists());
    // Whoever may use the engine's may use this one.
    let access = |path: &std::path::Path| {
        let found = std::fs::metadata(path).unwrap();
        (found.uid(), found.gid(), found.mode())
    };
    let engine = std::path::Path::new(rig.engine.host.trim_start_matches("unix://"));
    assert_eq!(access(&tracked.socket), access(engine));
    assert!(
        tracked.socket.as_os_str().len() < 64,
        "{:?}",
        tracked.socket
    );
    let report = tracked.server.end(&policy()).await.unwrap();
    assert!(report.gone.swept.is_empty(), "{report}");
    assert!(!tracked.socket.exists());
    let sockets = || {
        let directory = tracked.socket.parent().unwrap();
        let (instance, _) = tracked
            .socket
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .split_once('.')
            .unwrap();
        let files = std::fs::read_dir(directory).unwrap().flatten();
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with(instance))
            .count()
    };
    // A launch that fails does not leave one either.
    tracker
        .launch(&rig.wrapped("/no/such/program", &[]), &LaunchContext::new())
        .await
        .unwrap_err();
    eventually("the socket is removed", || sockets() == 0).await;
}

/// A container cannot reach the proxy's socket: it would lose its engine.
#[tokio::test]
async fn a_launcher_of_anything_but_processes_here_is_refused() {
    let Some(rig) = Rig::new("inner") else {
        return;
    };
    let tracker =
        ContainerTracker::new(Arc::new(rig.launcher())).ledger_directory(rig.ledgers.path());
    let spec = ServerSpec::builder(&rig.server, "/mcp-fixture")
        .arg("plain")
        .env("DOCKER_HOST", &rig.engine.host);
    let spec = rig.options().apply(spec).build().unwrap();
    let error = tracker
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap_err();
    let error = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    assert!(error.contains("processes on this machine"), "{error}");
    rig.assert_clean().await;
}

/// A database that is killed may lose what it has not written.
#[tokio::test]
async fn a_detached_container_is_asked_before_it_is_forced() {
    let Some(rig) = Rig::new("polite") else {
        return;
    };
    let script = r#"docker run -d --rm $RUN --entrypoint /bin/sh mcp-fixture:test -c \
        "trap ': > $DIRECTORY/asked; exit 0' TERM; $COMMAND & wait"; exec sleep 1000"#;
    let server = rig.script(script, 1).await;
    let address = rig.alive.address();
    let directory = address.trim_start_matches("unix:").trim_end_matches("/s");
    let asked = std::path::Path::new(directory).join("asked");
    assert!(!asked.exists());
    // Long: it ends with the container, which an engine at work may ask late.
    let policy = policy().term_grace(Duration::from_secs(20));
    let report = server.end(&policy).await.unwrap();
    // The command that started it may still run, and is swept as well.
    let swept = report.gone.swept.iter();
    let containers = swept.filter(|one| one.kind == RemnantKind::Container);
    assert_eq!(containers.count(), 1, "{report}");
    assert!(asked.exists(), "it was not asked: {report}");
    assert!(rig.started().is_empty());
}
