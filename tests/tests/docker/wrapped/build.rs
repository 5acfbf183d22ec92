//! Images that a server builds: by the classic builder, whose containers are the
//! engine's own affair, and by BuildKit.

use std::time::Instant;

use mcp_launcher_docker::ReapPolicy;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};

use super::{drain, policy};
use crate::support::{LIMIT, PrivateEngine, Rig, eventually, own};

/// Debian's, which has both builders in it. Newer ones need a plugin for BuildKit.
const DOCKER: &str = "/usr/bin/docker";

fn is_skipped() -> bool {
    let is_skipped = std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip");
    if is_skipped {
        eprintln!("skipped: MCP_DOCKER_TESTS=skip");
    }
    is_skipped
}

/// A build has no labels to be found by: its client's death ends it. With `-q` the engine
/// says nothing before.
#[tokio::test]
async fn a_classic_build_under_way_is_gone_with_the_proof() {
    if is_skipped() {
        return;
    }
    let private = PrivateEngine::start(&[]);
    for flags in ["", "-q"] {
        let rig = Rig::on(private.engine.clone(), "classic");
        let script = format!(
            r#"printf 'FROM mcp-fixture:test\nRUN ["/mcp-fixture", "ignore-eof-term"]\n' |
            DOCKER_BUILDKIT=0 {DOCKER} build {flags} --network none -; exec sleep 1000"#
        );
        let tracker = rig.tracker().reap(ReapPolicy::All);
        let spec = rig.wrapped("sh", &["-c", &script]);
        let server = tracker.launch(&spec, &LaunchContext::new()).await.unwrap();
        let mut server = own(server);
        drain(&mut server);
        let running = || rig.engine.docker(&["ps", "-q"]);
        eventually("it builds", || running().lines().count() == 1).await;
        let begun = Instant::now();
        let policy = policy().kill_confirmation(LIMIT);
        let report = server.end(&policy).await.unwrap();
        println!("gone in {:.1?}: {report}", begun.elapsed());
        let left = rig.engine.docker(&["ps", "-aq"]);
        assert!(left.is_empty(), "left after the proof: {left}");
    }
}

#[tokio::test]
async fn buildkit_builds_through_the_proxy() {
    if is_skipped() {
        return;
    }
    let private = PrivateEngine::start(&[]);
    let rig = Rig::on(private.engine.clone(), "buildkit");
    let script = format!(
        r#"printf 'FROM mcp-fixture:test\nRUN : >/made\nLABEL made=here\n' |
        DOCKER_BUILDKIT=1 {DOCKER} build --network none --progress plain -t made:1 - && echo made >&2
        exec sleep 1000"#
    );
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let spec = rig.wrapped("sh", &["-c", &script]);
    let server = tracker.launch(&spec, &LaunchContext::new()).await.unwrap();
    let mut server = own(server);
    drain(&mut server);
    let labels = || {
        let format = "{{.Config.Labels}}";
        let inspect = rig
            .engine
            .command(&["image", "inspect", "-f", format, "made:1"]);
        let output = { inspect }.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    eventually("it is built", || labels().contains("made:here")).await;
    server.end(&policy()).await.unwrap();
    assert_eq!(labels().trim(), "map[made:here]", "none of ours");
    assert!(rig.engine.docker(&["ps", "-aq"]).is_empty());
}
