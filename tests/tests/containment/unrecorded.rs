//! A server that could not be written down is not started: nobody would find it
//! when its host is killed.

use std::env;
use std::sync::Arc;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{LaunchContext, LaunchedServer};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::orphans::ledgers;
use crate::stage::{self, Stage, perform, plays};

const FREE: &str = "MCP_TEST_FREE";

/// A host that has so many descriptors for its first launches.
#[test]
#[ignore = "a role"]
fn cold_host() {
    if !plays() {
        return;
    }
    let free: u64 = env::var(FREE).unwrap().parse().unwrap();
    let mut stage = Stage::new();
    let spec = stage.spec(&["plain"]);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let limit = |soft| setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    // A descriptor that is free is the lowest one.
    let lowest = std::os::fd::AsRawFd::as_raw_fd(&std::fs::File::open("/dev/null").unwrap());
    for isolation in [Isolation::ProcessGroup, Isolation::Guardian] {
        stage.launcher = Arc::new(LocalLauncher::builder().isolation(isolation).build());
        limit(u64::try_from(lowest).unwrap() + free);
        let launched = stage.wait(
            "the launch",
            stage.launcher.launch(&spec, &LaunchContext::new()),
        );
        limit(soft);
        println!("{isolation:?}, {free} free: {}", launched.is_ok());
        if let Ok(server) = launched {
            assert_eq!(
                ledgers(),
                1,
                "{isolation:?} with {free} free: not written down"
            );
            end(&stage, server);
        }
        // What was missing for a moment is not missing for ever.
        let launched = stage.wait(
            "the next launch",
            stage.launcher.launch(&spec, &LaunchContext::new()),
        );
        assert_eq!(
            ledgers(),
            1,
            "{isolation:?} after {free} free: not written down"
        );
        end(&stage, launched.unwrap());
    }
    stage.nobody_is_left();
}

fn end(stage: &Stage, server: LaunchedServer) {
    let terminator = server.terminator().clone();
    drop(server);
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
}

#[test]
fn with_few_descriptors_a_server_is_written_down_or_not_started() {
    perform("unrecorded::few_descriptors");
}

#[test]
#[ignore = "a role"]
fn few_descriptors() {
    if !plays() {
        return;
    }
    let (mut started, mut refused) = (false, false);
    for free in 0..24 {
        let before = ledgers();
        assert_eq!(before, 0);
        let mut host = stage::role("unrecorded::cold_host");
        let output = host.env(FREE, free.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{free}: {said} {output:?}");
        started |= said.contains("free: true");
        refused |= said.contains("free: false");
        for ledger in std::fs::read_dir(crate::orphans::shelf())
            .unwrap()
            .flatten()
        {
            std::fs::remove_file(ledger.path()).unwrap();
        }
    }
    assert!(
        started && refused,
        "this is about the way from one to the other"
    );
}
