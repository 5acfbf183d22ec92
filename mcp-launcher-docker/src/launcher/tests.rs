use std::sync::mpsc;

use futures_util::FutureExt;

use super::*;
use crate::fake::FakeEngine;

const LIMIT: Duration = Duration::from_secs(60);

fn launcher(engine: &FakeEngine, leases: &tempfile::TempDir) -> DockerLauncher {
    DockerLauncher::builder()
        .endpoint(engine.endpoint())
        .lease_directory(leases.path())
        .registry_credentials(false)
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
    let leases = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, &leases);
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
    let leases = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, &leases);
    launch_until(&launcher, &create, || {
        // Another launch of that server has failed meanwhile, and asks.
        assert_eq!(launcher.unfinished("s"), []);
    });
    assert_eq!(launcher.unfinished("s").len(), 1);
    assert_eq!(launcher.unfinished("another"), []);
}

#[cfg(init_available)]
#[test]
fn a_last_will_that_could_not_be_begun_is_tried_again() {
    const ME: &str = "launcher::tests::a_last_will_that_could_not_be_begun_is_tried_again";
    if !crate::alone::is_alone(ME, "ulimit -n 64") {
        return;
    }
    let engine = FakeEngine::start(|_| None);
    let leases = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, &leases);
    // The thread has its descriptors.
    drop(control::spawn(async {}).unwrap());
    let taken = crate::alone::fill_descriptors();
    assert!(launcher.shared.will().is_none());
    assert!(launcher.shared.has_will(), "the next launch tries again");
    drop(taken);
    assert!(launcher.shared.will().is_some());
}
