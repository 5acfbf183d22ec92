//! Hosts that are killed: nothing of theirs is left, without any sweep.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};

use super::drain;
use crate::support::{Host, LIMIT, Rig, eventually, is_host, own, pause};

const HOST: &str = "wrapped::host_death::killed_hosts_leave_no_stubborn_container";

/// The shapes that their client's death does not end.
const SCRIPTS: [&str; 3] = [
    "docker run -i --rm $RUN $PAYLOAD; true",
    "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000",
    "docker create -i --rm $RUN $PAYLOAD; exec sleep 1000",
];

/// As many as are killed at a time: that is the machine's load, not ours.
const AT_ONCE: usize = 5;

async fn host(rig: &Rig, job: &str) {
    let [ledgers, name, script] = job.split('|').collect::<Vec<_>>()[..] else {
        panic!("{job}");
    };
    rig.remove_files();
    let wrapped = rig.wrapped("sh", &["-c", script]);
    let mut spec = ServerSpec::builder(name, "sh").args(["-c", script]);
    for (key, value) in wrapped.env().literals() {
        spec = spec.env(key, value);
    }
    let run = format!("--network none --init --label test={name}");
    let spec = spec
        .env("RUN", run)
        .env("PAYLOAD", "mcp-fixture:test /mcp-fixture ignore-eof-term");
    let tracker = rig.tracker().ledger_directory(ledgers);
    let _server = tracker
        .launch(&spec.build().unwrap(), &LaunchContext::new())
        .await
        .unwrap();
    println!("launched");
    std::future::pending().await
}

#[tokio::test]
async fn killed_hosts_leave_no_stubborn_container() {
    let Some(rig) = Rig::new("killed") else {
        return;
    };
    if let Some(job) = is_host() {
        return host(&rig, &job).await;
    }
    let hosts = std::env::var("MCP_DOCKER_KILLED_HOSTS");
    let hosts: usize = hosts.map_or(20, |n| n.parse().unwrap());
    let mut slowest = Duration::ZERO;
    for first in (0..hosts).step_by(AT_ONCE) {
        let count = AT_ONCE.min(hosts - first);
        let mut all = Vec::new();
        for n in first..first + count {
            let script = SCRIPTS[n % SCRIPTS.len()];
            let job = format!("{}|{}|{script}", rig.ledgers.path().display(), rig.server);
            let mut host = Host::start(HOST, &job);
            host.wait_for("launched");
            all.push(host);
        }
        eventually("they are there", || rig.started().len() == count).await;
        for host in &mut all {
            host.kill();
        }
        let died = Instant::now();
        eventually("they are gone", || rig.started().is_empty()).await;
        slowest = slowest.max(died.elapsed());
    }
    println!(
        "{hosts} hosts killed: 0 containers left, the last one gone {slowest:.1?} after its host"
    );
    // A create that was in flight may come late, and is ended as well.
    pause(Duration::from_secs(1)).await;
    assert!(rig.started().is_empty());
}

#[tokio::test]
async fn it_is_said_whether_containers_end_with_the_host() {
    let Some(rig) = Rig::new("semantics") else {
        return;
    };
    let script = "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";
    let fallback = async |tracker: &dyn ServerLauncher, spec: &ServerSpec| {
        let server = tracker.launch(spec, &LaunchContext::new()).await.unwrap();
        let fallback = server.terminator().semantics().containment.fallback;
        let mut server = own(server);
        drain(&mut server);
        server.end(&super::policy()).await.unwrap();
        fallback.map(String::from).unwrap_or_default()
    };
    let tracker = rig.tracker();
    let server = tracker
        .launch(&rig.wrapped("sh", &["-c", script]), &LaunchContext::new())
        .await;
    let server = server.unwrap();
    let terminator = std::sync::Arc::clone(server.terminator());
    let mut server = own(server);
    drain(&mut server);
    rig.alive.accept("server", LIMIT).await.unwrap();
    let says = || terminator.semantics().containment.fallback;
    assert!(
        !says().unwrap_or_default().contains("containers"),
        "{:?}",
        says()
    );
    server.end(&super::policy()).await.unwrap();

    let without = rig.tracker().last_will(false);
    let spec = rig.wrapped("cat", &[]);
    let said = fallback(&without, &spec).await;
    assert!(
        said.contains("the containers that this server starts"),
        "{said}"
    );
    // Tracked from here, but nobody here reaches that engine without the host.
    let far = ServerSpec::builder("far", "cat").env("DOCKER_HOST", "tcp://127.0.0.1:1");
    let said = fallback(&tracker, &far.clone().build().unwrap()).await;
    assert!(said.contains("nothing outlives the host"), "{said}");
    let locked = far
        .env("DOCKER_TLS_VERIFY", "1")
        .env("DOCKER_CERT_PATH", "/nowhere");
    let said = fallback(&tracker, &locked.build().unwrap()).await;
    assert!(said.contains("not tracked"), "{said}");
    assert!(said.contains("/nowhere/ca.pem"), "{said}");
}
