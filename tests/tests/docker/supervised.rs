//! An init that ends the server when its host has gone.

use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, DockerLauncher, Init};
use mcp_lifecycle_core::launch::{ExitStatus, LaunchContext, Reach, ServerLauncher, ServerSpec};

use crate::support::{Host, LIMIT, Rig, is_host, own, without_haste};

const GRACE: Duration = Duration::from_millis(300);

fn supervised(options: ContainerOptions, read_only: bool) -> ContainerOptions {
    let options = options.init(Init::Supervised).init_grace(GRACE);
    options.read_only_root(read_only)
}

/// Launches what it is told, says so, and waits to be killed.
async fn host(rig: &Rig, job: &str) {
    let (ledgers, spec) = job.split_once('|').unwrap();
    let spec: Vec<String> = serde_json::from_str(spec).unwrap();
    let options = serde_json::from_str(&spec[0]).unwrap();
    let launcher = DockerLauncher::builder()
        .endpoint(rig.launcher().endpoint().clone())
        .ledger_directory(ledgers)
        .build()
        .unwrap();
    let builder = ServerSpec::builder(&spec[1], "/mcp-fixture").args(&spec[2..]);
    let options: ContainerOptions = options;
    let spec = options.apply(builder).build().unwrap();
    let _server = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
    println!("launched");
    std::future::pending::<()>().await;
}

/// The host of a stubborn server is killed, and nobody cleans up after it.
async fn ends_by_itself(test: &str, name: &str, read_only: bool) {
    let Some(rig) = Rig::new(name) else {
        return;
    };
    if let Some(job) = is_host() {
        return host(&rig, &job).await;
    }
    let options = supervised(rig.options(), read_only);
    let options = serde_json::to_string(&options).unwrap();
    let address = rig.alive.address();
    let fixture = ["ignore-eof-term", "--alive", &address];
    let spec = [&[options.as_str(), rig.server.as_str()][..], &fixture].concat();
    let spec = serde_json::to_string(&spec).unwrap();
    let job = format!("{}|{spec}", rig.ledgers.path().display());
    let mut host = Host::start(&format!("supervised::{test}"), &job);
    host.wait_for("launched");
    let server = rig.alive.accept("server", LIMIT).await.unwrap();
    host.kill();
    let died = Instant::now();
    server.wait_dead(LIMIT).await.unwrap();
    println!("stubborn server dead {:.0?} after its host", died.elapsed());
    assert!(died.elapsed() >= GRACE, "it had its grace");
    rig.assert_clean().await;
}

#[tokio::test]
async fn a_stubborn_server_ends_after_its_host_was_killed() {
    let test = "a_stubborn_server_ends_after_its_host_was_killed";
    ends_by_itself(test, "supervised", false).await;
}

#[tokio::test]
async fn so_does_one_with_a_read_only_root() {
    ends_by_itself("so_does_one_with_a_read_only_root", "read-only", true).await;
}

#[tokio::test]
async fn an_end_in_order_is_what_it_is_without_it() {
    let Some(rig) = Rig::new("in-order") else {
        return;
    };
    // Longer than the policy's graces, as documented.
    let options = supervised(rig.options(), false).init_grace(Duration::from_secs(60));
    // Who obeys has all the time; who does not is given little.
    let little = Duration::from_millis(500);
    let obeys = without_haste().eof_grace(LIMIT).term_grace(LIMIT);
    for (fixture, policy, exit) in [
        (&["plain"][..], &obeys, ExitStatus::Code(0)),
        (
            &["ignore-eof"],
            &obeys.clone().eof_grace(little),
            ExitStatus::Signal(15),
        ),
        (
            &["ignore-eof-term"],
            &without_haste().eof_grace(little).term_grace(little),
            ExitStatus::Signal(9),
        ),
    ] {
        let spec = rig.spec_with(&options, fixture);
        let server = rig.launch_by(&rig.launcher(), &spec).await;
        let declared = server.terminator().semantics().containment;
        assert_eq!(declared.on_host_death, Reach::Container);
        let server = own(server);
        let report = server.end(policy).await.unwrap();
        let alive = rig.alive.alive_at_this_moment(LIMIT).await.unwrap();
        assert!(alive.is_empty(), "{alive:?}");
        println!("{fixture:?}: {report}");
        assert_eq!(report.exit, exit, "{fixture:?}");
    }
    rig.assert_clean().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    use tokio::io::AsyncReadExt;
    let Some(rig) = Rig::new("missing") else {
        return;
    };
    let options = supervised(rig.options(), false);
    let spec = ServerSpec::builder(&rig.server, "no-such-program");
    let spec = options.apply(spec).build().unwrap();
    let mut server = own(rig
        .launcher()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap());
    let mut text = String::new();
    let stderr = server.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("cannot run no-such-program"), "{text}");
    let report = server.end(&without_haste()).await.unwrap();
    assert_eq!(report.exit, ExitStatus::Code(127));
    rig.assert_clean().await;
}
