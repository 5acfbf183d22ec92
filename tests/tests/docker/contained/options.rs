//! Which servers have a companion.

use super::host::{Host, code};
use super::{Shape, executable, nothing_is_left, start};
use crate::support::{LIMIT, Rig, eventually};

const SERVER: &str = "#!/bin/sh\ndocker run -i --rm $RUN $PAYLOAD; true";

#[tokio::test]
async fn a_server_that_does_not_say_so_has_a_companion_by_choice_alone() {
    let Some(rig) = Rig::new("contained-choice") else {
        return;
    };
    let program = executable(&rig, "server", SERVER);
    let server = rig.wrapped(&program, &[]);
    let mut host = start(&rig, &["--containers"], &server).await;
    host.close();
    host.ended().await;
    assert_eq!(rig.started(), Vec::<String>::new());
    nothing_is_left(&rig, &host).await;

    for (options, server) in [
        (&[][..], server),
        (&["--containers=never"], Shape::Shell.server(&rig)),
    ] {
        let mut host = start(&rig, options, &server).await;
        assert_eq!(host.companions(), Vec::<i32>::new());
        host.close();
        host.ended().await;
        // Stubborn, and nobody's.
        for id in rig.started() {
            rig.engine.docker(&["rm", "-f", &id]);
        }
        nothing_is_left(&rig, &host).await;
    }
}

#[tokio::test]
async fn without_an_engine_a_server_runs_and_one_whose_containers_were_to_end_with_it_does_not() {
    let Some(rig) = Rig::new("contained-none") else {
        return;
    };
    let server = rig.wrapped("sh", &["-c", "exit 7", "docker"]);
    for (options, engine, expected) in [
        (&[][..], "unix:///nowhere/docker.sock", 7),
        (&["--containers"], "unix:///nowhere/docker.sock", 125),
        (&["--containers=never"], "unix:///nowhere/docker.sock", 7),
        // No such feature: said, and the server runs.
        (&[], "tcp://127.0.0.1:1", 7),
    ] {
        let spec = mcp_lifecycle_core::launch::ServerSpec::builder("s", server.program().unwrap())
            .args(server.args().iter().cloned())
            .env("DOCKER_HOST", engine);
        let mut host = Host::start(&rig, options, &spec.build().unwrap()).await;
        assert_eq!(code(host.ended().await), expected, "{options:?} {engine}");
        eventually("no process is left", || host.processes().is_empty()).await;
    }
}

#[tokio::test]
async fn a_polite_detached_container_is_asked_and_one_that_is_not_tied_stays() {
    let Some(rig) = Rig::new("contained-tied") else {
        return;
    };
    let script = "docker create $RUN $PAYLOAD; docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";
    let mut host = Host::start(
        &rig,
        &["--grace", "300ms"],
        &rig.wrapped("sh", &["-c", script]),
    )
    .await;
    rig.alive.accept("server", LIMIT).await.unwrap();
    host.close();
    host.ended().await;
    let left = rig.started();
    assert_eq!(left.len(), 1, "it was to last");
    rig.engine.docker(&["rm", "-f", &left[0]]);
    nothing_is_left(&rig, &host).await;
}
