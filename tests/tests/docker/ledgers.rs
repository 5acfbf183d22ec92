//! Where hosts find each other's ledgers: by their user, not by their environment.

use mcp_launcher_docker::{DockerLauncher, Endpoint, Init};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};

use crate::support::{Host, Rig, is_host};

const ME: &str = "ledgers::hosts_with_other_environments_clean_up_after_each_other";

/// One that was told nothing of where ledgers are.
fn launcher(host: &str) -> DockerLauncher {
    let builder = DockerLauncher::builder().endpoint(Endpoint::from_url(host).unwrap());
    builder.last_will(false).build().unwrap()
}

async fn host(rig: &Rig, job: &str) {
    let [what, server] = job.split('|').collect::<Vec<_>>()[..] else {
        panic!("{job}");
    };
    let launcher = launcher(&rig.engine.host);
    if what == "reap" {
        let report = launcher.reap_orphans().await.unwrap();
        println!(
            "ended {} failed {}",
            report.ended.len(),
            report.failed.len()
        );
        return;
    }
    let spec = ServerSpec::builder(server, "/mcp-fixture").arg("ignore-eof-term");
    // Its program is mounted from the directory of the ledgers.
    let options = rig.options().read_only_root(true).init(Init::Supervised);
    let options = options.init_grace(std::time::Duration::from_secs(600));
    let _server = launcher
        .launch(&options.apply(spec).build().unwrap(), &LaunchContext::new())
        .await
        .unwrap();
    println!("launched");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn hosts_with_other_environments_clean_up_after_each_other() {
    let Some(rig) = Rig::new("environments") else {
        return;
    };
    if let Some(job) = is_host() {
        return host(&rig, &job).await;
    }
    let above = tempfile::tempdir().unwrap();
    // Made by the host, for its user alone.
    let state = above.path().join("state").display().to_string();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = |what: &str, runtime: &tempfile::TempDir| {
        let path = |directory: &tempfile::TempDir| directory.path().to_str().unwrap().to_owned();
        // The rule's own way to keep tests apart; the rest of it is tested as a rule.
        let variables = [
            ("MCP_LIFECYCLE_STATE_DIR", state.clone()),
            ("XDG_RUNTIME_DIR", path(runtime)),
        ];
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        Host::start_with(ME, &format!("{what}|{}", rig.server), &variables)
    };
    let mut dead = start("launch", &one);
    dead.wait_for("launched");
    let ledgers = std::fs::read_dir(above.path().join("state/docker")).unwrap();
    let is_ledger = |name: &str| name.ends_with(".ledger");
    let names = ledgers.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| is_ledger(name)).count(), 1);
    dead.kill();
    assert_eq!(rig.containers().len(), 1);
    let said = start("reap", &two).output();
    assert!(said.contains("ended 1 failed 0"), "{said}");
    rig.assert_clean().await;
}
