//! Containers of others that carry our labels, or our server's environment.

use mcp_lifecycle_core::launch::{ReapReport, ServerLauncher};

use super::policy;
use crate::support::{Rig, eventually, own};

/// A container of the user's, from this image.
fn user(rig: &Rig, image: &str) -> String {
    let label = format!("test={}", rig.server);
    let name = format!("user-{}", rig.server);
    let args = [
        "run",
        "-d",
        "--network=none",
        "--name",
        &name,
        "--label",
        &label,
    ];
    let command = ["--entrypoint", "/mcp-fixture", image, "ignore-eof-term"];
    rig.engine.docker(&[args.as_slice(), &command].concat())
}

fn commit(rig: &Rig, container: &str, tag: &str) -> String {
    let image = format!("committed-{}:{tag}", rig.server.to_lowercase());
    rig.engine
        .docker(&["commit", "--pause=false", container, &image]);
    image
}

fn runs(rig: &Rig, id: &str) -> bool {
    let format = "{{.State.Running}}";
    let output = rig
        .engine
        .command(&["inspect", "--format", format, id])
        .output();
    output.unwrap().stdout.starts_with(b"true")
}

fn assert_spared(rig: &Rig, report: &ReapReport, id: &str) {
    assert!(report.ended.is_empty(), "{report}");
    assert!(runs(rig, id), "the user's container was ended: {report}");
}

#[tokio::test]
async fn an_image_of_a_nested_container_makes_nobody_ours() {
    let Some(rig) = Rig::new("committed") else {
        return;
    };
    let script = "docker run -d --rm --name srv-$TEST $RUN $PAYLOAD && \
        docker commit --pause=false srv-$TEST committed-$TEST:within; exec sleep 1000";
    let server = rig.script(script, 1).await;
    let within = format!("committed-{}:within", rig.server);
    let exists = || {
        rig.engine
            .command(&["image", "inspect", &within])
            .output()
            .unwrap()
    };
    eventually("it is committed", || exists().status.success()).await;
    let inherited = rig.engine.field(&within, "launch");
    assert_eq!(inherited, [""], "through the proxy no label is inherited");

    let image = commit(&rig, &format!("srv-{}", rig.server), "outside");
    let inherited = rig.engine.field(&image, "launch");
    assert_ne!(inherited, [""], "on the engine's own socket they are");
    let user = user(&rig, &image);
    let report = server.end(&policy()).await.unwrap();
    assert_eq!(report.gone.swept.len(), 1, "{report}");
    assert!(
        runs(&rig, &user),
        "the user's container was ended: {report}"
    );
    // Nor by the next start, with the host dead.
    let report = rig.tracker().reap_orphans().await.unwrap();
    assert_spared(&rig, &report, &user);
    rig.engine.docker(&["rm", "-f", &user]);
    rig.engine.docker(&["rmi", "-f", &image, &within]);
}

#[tokio::test]
async fn an_image_of_a_server_makes_nobody_ours() {
    let Some(rig) = Rig::new("snapshot") else {
        return;
    };
    let launcher = rig.launcher();
    let server = own(rig
        .launch_by(&launcher, &rig.spec(&["ignore-eof-term"]))
        .await);
    let image = commit(&rig, &rig.containers()[0], "server");
    let user = user(&rig, &image);
    server.end(&policy()).await.unwrap();
    drop((server, launcher));
    let report = rig.launcher().reap_orphans().await.unwrap();
    assert_spared(&rig, &report, &user);
    rig.engine.docker(&["rm", "-f", &user]);
    rig.engine.docker(&["rmi", "-f", &image]);
}

/// A kept container is not the server's by its environment either: the local launcher
/// would know its processes by that.
#[tokio::test]
async fn a_kept_container_with_the_servers_environment_lives_on() {
    let Some(rig) = Rig::new("keepenv") else {
        return;
    };
    let script = "env | grep -v -e ^PATH= > env.$TEST; docker run -d --env-file env.$TEST $RUN $PAYLOAD; \
        rm env.$TEST; exec sleep 1000";
    let server = rig.script(script, 1).await;
    let kept = rig.started().remove(0);
    let env = rig
        .engine
        .docker(&["inspect", "--format", "{{.Config.Env}}", &kept]);
    assert!(env.contains("TEST="), "it has the environment: {env}");
    assert!(!env.contains("MCP_LIFECYCLE_ID"), "{env}");
    let report = server.end(&policy()).await.unwrap();
    assert_eq!(report.gone.reported.len(), 1, "{report}");
    let report = rig.tracker().reap_orphans().await.unwrap();
    assert_spared(&rig, &report, &kept);
    rig.engine.docker(&["rm", "-f", &kept]);
}
