//! Many executors as one: the real daemon, several times.

use mcp_launcher_executor::{ExecutorError, Health};
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::launch::ServerIdentity;

use crate::prelude::*;

async fn peers<const N: usize>() -> [Peer; N] {
    let mut peers = Vec::new();
    for _ in 0..N {
        peers.push(daemon(&[]).await);
    }
    peers.try_into().ok().unwrap()
}

/// A member that is connected to by its first use.
fn member(name: &str, url: &str) -> Member {
    Member::new(name, ExecServer::new(ExecServerConfig::websocket(url)))
}

/// Where nobody listens.
async fn nobody() -> String {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("ws://{}", socket.local_addr().unwrap())
}

fn on(server: &Server) -> String {
    match server.handle.identity() {
        ServerIdentity::Remote { executor, .. } => executor,
        other => panic!("{other} is not remote"),
    }
}

fn running(set: &ExecutorSet) -> Vec<u32> {
    set.states().iter().map(|state| state.running).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_spread_by_load_and_their_places_come_back() {
    let [one, two] = peers().await;
    let set = ExecutorSet::new([
        member("one", &one.url),
        member("two", &two.url).capacity(512),
    ]);
    assert!(set.states().iter().all(|s| s.health == Health::Unknown));
    let launcher = ExecutorLauncher::new(set.clone());
    let mut servers = Vec::new();
    for _ in 0..6 {
        servers.push(launch(&launcher, sh("exec cat")).await);
    }
    assert_eq!(running(&set), [4, 2], "in the ratio of the capacities");
    assert!(set.states().iter().all(|s| s.health == Health::Reachable));
    for server in &servers {
        server.end(&TerminationPolicy::default()).await.unwrap();
    }
    assert_eq!(running(&set), [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_cannot_be_reached_is_passed_over_and_said_to_be() {
    let [two] = peers().await;
    let set = ExecutorSet::new([member("one", &nobody().await), member("two", &two.url)]);
    let launcher = ExecutorLauncher::new(set.clone());
    for _ in 0..3 {
        let server = launch(&launcher, sh("exec cat")).await;
        assert_eq!(on(&server), two.url);
        server.end(&TerminationPolicy::default()).await.unwrap();
    }
    let states = set.states();
    let Health::Unreachable { failures, error } = &states[0].health else {
        panic!("{states:?}");
    };
    assert_eq!(*failures, 1, "it was passed over the next times: {error}");
    set.check().await;
    assert!(matches!(
        set.states()[0].health,
        Health::Unreachable { failures: 2, .. }
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_no_member_can_take_it_the_error_says_why_for_each() {
    let [two, three] = peers().await;
    let set = ExecutorSet::new([
        member("one", &nobody().await),
        member("two", &two.url).capacity(0),
        member("three", &three.url),
    ]);
    set.drain("three").unwrap();
    let command = RemoteCommand::from_spec(&sh("exec cat").build().unwrap()).unwrap();
    let error = within(set.start(&command)).await.unwrap_err();
    let ExecutorError::NoPlace { why } = &error else {
        panic!("{error}");
    };
    assert!(why.contains("one: the executor at"), "{why}");
    assert!(why.contains("two: 0 of 0"), "{why}");
    assert!(why.contains("three: it is being drained"), "{why}");
    assert_eq!(running(&set), [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_member_s_refusal_spills_over() {
    let one = daemon(&["--max-processes", "1"]).await;
    let [two] = peers().await;
    let set = ExecutorSet::new([member("one", &one.url), member("two", &two.url).capacity(2)]);
    let launcher = ExecutorLauncher::new(set.clone());
    let first = launch(&launcher, sh("exec cat")).await;
    let second = launch(&launcher, sh("exec cat")).await;
    let third = launch(&launcher, sh("exec cat")).await;
    assert_eq!(on(&first), one.url);
    assert_eq!(
        (on(&second), on(&third)),
        (two.url.clone(), two.url.clone())
    );
    for server in [first, second, third] {
        server.end(&TerminationPolicy::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_choose_the_machine_and_one_machine_refuses_them() {
    let [one, two] = peers().await;
    let set = ExecutorSet::new([
        member("one", &one.url),
        member("two", &two.url).label("gpu", "a100"),
    ]);
    let launcher = ExecutorLauncher::new(set);
    let wants = |gpu: &str| sh("exec cat").option("labels", json!({"gpu": gpu}));
    let server = launch(&launcher, wants("a100")).await;
    assert_eq!(on(&server), two.url);
    server.end(&TerminationPolicy::default()).await.unwrap();
    let error = launcher
        .launch(&wants("h100").build().unwrap(), &LaunchContext::new())
        .await;
    let error = mcp_lifecycle_core::launch::ErrorChain(&error.unwrap_err()).to_string();
    assert!(
        error.contains("two: it does not have the labels"),
        "{error}"
    );
    let single = crate::support::launcher(ExecServerConfig::websocket(&one.url)).await;
    let refused = single
        .launch(&wants("a100").build().unwrap(), &LaunchContext::new())
        .await;
    assert!(refused.is_err(), "a restriction was dropped silently");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_member_empties_and_comes_back() {
    let [one, two] = peers().await;
    let set = ExecutorSet::new([member("one", &one.url), member("two", &two.url)]);
    let launcher = ExecutorLauncher::new(set.clone());
    let first = launch(&launcher, sh("exec cat")).await;
    assert_eq!(on(&first), one.url);
    set.drain("one").unwrap();
    let second = launch(&launcher, sh("exec cat")).await;
    let third = launch(&launcher, sh("exec cat")).await;
    assert_eq!(
        (on(&second), on(&third)),
        (two.url.clone(), two.url.clone())
    );
    let idle = tokio::time::timeout(Duration::from_millis(50), set.idle("one"));
    assert!(idle.await.is_err(), "a process runs there");
    first.end(&TerminationPolicy::default()).await.unwrap();
    within(set.idle("one")).await.unwrap();
    set.undrain("one").unwrap();
    let fourth = launch(&launcher, sh("exec cat")).await;
    assert_eq!(on(&fourth), one.url);
    assert!(set.drain("three").is_err());
    for server in [second, third, fourth] {
        server.end(&TerminationPolicy::default()).await.unwrap();
    }
}

/// A host that reads its configuration again, and builds its set of it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_built_again_keeps_the_servers_and_another_one_does_not() {
    let [one, two] = peers().await;
    let server = |members: [Member; 2]| {
        let launcher = ExecutorLauncher::new(ExecutorSet::new(members));
        let spec = sh("exec cat").build().unwrap();
        ServerConfig::new(Arc::new(launcher), spec)
    };
    let built = |label| {
        server([
            member("one", &one.url),
            member("two", &two.url).label("gpu", label),
        ])
    };
    let same = |one: &ServerConfig, other: &ServerConfig| {
        let fingerprint = |config: &ServerConfig| config.launcher().fingerprint().unwrap();
        fingerprint(one) == fingerprint(other)
    };
    assert!(same(&built("a100"), &built("a100")));
    assert!(!same(&built("a100"), &built("h100")));
    let swapped = server([member("one", &two.url), member("two", &one.url)]);
    let plain = server([member("one", &one.url), member("two", &two.url)]);
    assert!(!same(&swapped, &plain));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_dropped_gives_its_place_back() {
    let [one] = peers().await;
    let set = ExecutorSet::new([member("one", &one.url)]);
    let command = RemoteCommand::from_spec(&sh("exec cat").build().unwrap()).unwrap();
    for delay in 0..20 {
        let limit = Duration::from_micros(delay * 200);
        drop(tokio::time::timeout(limit, set.start(&command)).await);
    }
    within(set.idle("one")).await.unwrap();
}
