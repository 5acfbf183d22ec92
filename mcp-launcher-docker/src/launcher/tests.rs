use std::sync::mpsc;

use futures_util::FutureExt;

use super::*;
use crate::fake::FakeEngine;

const LIMIT: Duration = Duration::from_secs(60);

fn launcher(engine: &FakeEngine, ledgers: &tempfile::TempDir) -> DockerLauncher {
    DockerLauncher::builder()
        .endpoint(engine.endpoint())
        .ledger_directory(ledgers.path())
        .build()
        .unwrap()
}

fn spec() -> ServerSpec {
    let spec = ServerSpec::builder("s", "/p");
    ContainerOptions::new("image").apply(spec).build().unwrap()
}

/// Runs a launch until this is said, and then drops it.
fn launch_until(launcher: &DockerLauncher, said: &mpsc::Receiver<()>, now: impl FnOnce()) {
    let (spec, context) = (spec(), LaunchContext::new());
    let mut launch = launcher.launch(&spec, &context);
    assert!(launch.as_mut().now_or_never().is_none());
    said.recv_timeout(LIMIT).unwrap();
    now();
}

/// It takes its time, and is not a container.
#[test]
fn a_launch_that_ends_within_a_pull_leaves_nothing_unfinished() {
    let (begun, pull) = mpsc::channel();
    let engine = FakeEngine::start(move |request| {
        if request.contains("/images/create") {
            begun.send(()).unwrap();
            std::thread::park();
        }
        Some((404, r#"{"message":"No such image: image"}"#.to_owned()))
    });
    let ledgers = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, &ledgers);
    launch_until(&launcher, &pull, || {});
    assert_eq!(launcher.unfinished("s"), []);
}

#[test]
fn a_create_is_unfinished_once_its_launch_has_ended_and_not_before() {
    let (begun, create) = mpsc::channel();
    let engine = FakeEngine::start(move |request| {
        if request.contains("/containers/create") {
            begun.send(()).unwrap();
            std::thread::park();
        }
        Some((404, r#"{"message":"none"}"#.to_owned()))
    });
    let ledgers = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, &ledgers);
    launch_until(&launcher, &create, || {
        // Another launch of that server has failed meanwhile, and asks.
        assert_eq!(launcher.unfinished("s"), []);
    });
    assert_eq!(launcher.unfinished("s").len(), 1);
    assert_eq!(launcher.unfinished("another"), []);
}
