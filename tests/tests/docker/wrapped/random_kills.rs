//! Hosts that are killed while their servers start containers.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};

use crate::support::{Host, LIMIT, Rig, is_host, pause};

const HOST: &str = "wrapped::random_kills::sixty_hosts_killed_at_random_instants_leave_nothing";

/// The host is killed; its next start is told to clean up.
#[tokio::test]
async fn sixty_hosts_killed_at_random_instants_leave_nothing() {
    let Some(rig) = Rig::new("random") else {
        return;
    };
    if let Some(job) = is_host() {
        // It is going to be killed, and would leave what is its own.
        rig.remove_files();
        let (ledgers, rest) = job.split_once('|').unwrap();
        let (name, script) = rest.split_once('|').unwrap();
        let tracker = rig.tracker().ledger_directory(ledgers);
        let spec = rig.wrapped("sh", &["-c", script]);
        let spec = {
            // The parent's name, so that it finds what is left.
            let run = format!("--network none --init --label test={name}");
            let mut new = ServerSpec::builder(name, "sh").args(["-c", script]);
            for (key, value) in spec.env().literals() {
                new = new.env(key, value);
            }
            new.env("RUN", run)
                .env("PAYLOAD", "mcp-fixture:test /mcp-fixture ignore-eof-term")
                .build()
                .unwrap()
        };
        let _server = tracker.launch(&spec, &LaunchContext::new()).await.unwrap();
        println!("launched");
        return std::future::pending().await;
    }
    let scripts = [
        "exec docker run -i --rm $RUN $PAYLOAD",
        "docker run -i --rm $RUN $PAYLOAD; true",
        "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000",
        "docker create -i --rm $RUN $PAYLOAD; exec sleep 1000",
    ];
    let mut orphaned = 0;
    for round in 0..60_u64 {
        let script = scripts[round as usize % scripts.len()];
        let job = format!("{}|{}|{script}", rig.ledgers.path().display(), rig.server);
        let mut host = Host::start(HOST, &job);
        host.wait_for("launched");
        // Spread over the life of a `docker run`, in no order.
        pause(Duration::from_millis(round * 37 % 400)).await;
        host.kill();
        if round % 20 == 19 {
            orphaned += rig.started().len();
            clean_up(&rig).await;
        }
    }
    println!("60 hosts killed: {orphaned} containers orphaned, 0 left");
}

/// Searches until nothing is left: a create that was under way when its host
/// died comes true only when the engine gets to it.
async fn clean_up(rig: &Rig) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let report = rig.tracker().reap_orphans().await.unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
        // Late ones come one after the other: none twice in a row.
        let mut looks = 0;
        while looks < 2 && rig.started().is_empty() {
            looks += 1;
            pause(Duration::from_millis(500)).await;
        }
        if looks == 2 {
            return;
        }
        let left = rig.started();
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {left:?}");
    }
}
