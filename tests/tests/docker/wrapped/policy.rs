//! Which containers end, which stay, and what is left on the disk.

use mcp_launcher_docker::ContainerTracker;
use mcp_lifecycle_core::{ServerLauncher, ServerSpec, TerminationReport};

use super::{Shape, drain, ends_clean, policy};
use crate::support::{LIMIT, Rig, eventually, own};

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
    let mut server = own(rig
        .tracker()
        .launch(&rig.wrapped("sh", &["-c", script]))
        .await
        .unwrap());
    drain(&mut server);
    for _ in 0..2 {
        rig.alive.accept("server", LIMIT).await.unwrap();
    }
    let during = stranger(&format!("mcp-{}-during", rig.server));
    let report: std::sync::Arc<TerminationReport> = server.end(&policy()).await.unwrap();
    let names = |list: &[mcp_lifecycle_core::Remnant]| -> Vec<String> {
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
    let sockets = || {
        let files = std::fs::read_dir(rig.leases.path()).unwrap().flatten();
        files
            .filter(|f| f.path().extension().is_some_and(|e| e == "sock"))
            .count()
    };
    let tracker = rig.tracker();
    let mut server = own(tracker.launch(&rig.wrapped("cat", &[])).await.unwrap());
    drain(&mut server);
    assert_eq!(sockets(), 1);
    let report = server.end(&policy()).await.unwrap();
    assert!(report.was_graceful(), "{report}");
    assert_eq!(sockets(), 0);
    // A launch that fails does not leave one either.
    tracker
        .launch(&rig.wrapped("/no/such/program", &[]))
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
    let tracker = ContainerTracker::new(rig.launcher()).lease_directory(rig.leases.path());
    let spec = ServerSpec::builder(&rig.server, "/mcp-fixture")
        .arg("plain")
        .env("DOCKER_HOST", &rig.engine.host);
    let spec = rig.options().apply(spec).build().unwrap();
    let error = tracker.launch(&spec).await.unwrap_err();
    let error = mcp_lifecycle_core::error::Report(&error).to_string();
    assert!(error.contains("processes on this machine"), "{error}");
    rig.assert_clean().await;
}
