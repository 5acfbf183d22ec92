//! The end of 492 servers: 4 kinds, 123 of each.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::ServerManager;
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;
use mcp_lifecycle_measure::{Figure, Run};

use crate::common::{ECHO, FIXTURE, Options, echo, launcher};

const KINDS: usize = 4;
const EACH: usize = 123;

pub(crate) async fn run(run: &mut Run, options: &Options) {
    let each = options.scaled(EACH);
    let launcher = launcher();
    stubborn(run, &launcher, each).await;
    cooperative(run, &launcher, each).await;
}

/// All ignore end of file and SIGTERM.
async fn stubborn(run: &mut Run, launcher: &Arc<dyn ServerLauncher>, each: usize) {
    let policy = TerminationPolicy::new();
    let server = |n: usize| {
        let spec = ServerSpec::builder(format!("s{n}"), FIXTURE).args(["ignore-eof-term"]);
        let config = ServerConfig::new(Arc::clone(launcher), spec.build().expect("valid"));
        config.startup_timeout(Duration::from_secs(300))
    };
    let took = end((0..KINDS * each).map(server)).await;
    let over = took.saturating_sub(policy.eof_grace + policy.term_grace);
    let name = format!("{} stubborn servers ended, beyond the graces", KINDS * each);
    run.figure(Figure::ours(name, over.as_secs_f64(), "s").at_most(0.5));
}

async fn cooperative(run: &mut Run, launcher: &Arc<dyn ServerLauncher>, each: usize) {
    let ours = end((0..KINDS * each).map(|n| echo(launcher, &format!("s{n}"), n))).await;
    let shell = killed_by_a_shell(KINDS * each);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let name = format!("{} cooperative servers ended", KINDS * each);
    run.figure(Figure::ratio(name, ms(ours), ("kill", ms(shell)), "ms").at_most(1.8));
}

async fn end(servers: impl Iterator<Item = ServerConfig>) -> Duration {
    let manager = ServerManager::new("bench");
    let report = manager.refresh(servers).await.expect("a refresh");
    assert_eq!(report.failed().count(), 0, "{report}");
    let begun = Instant::now();
    manager
        .shutdown(Duration::from_secs(60))
        .await
        .expect("a proof");
    begun.elapsed()
}

/// The same number of the same servers, ended by `kill` and waited for.
fn killed_by_a_shell(count: usize) -> Duration {
    let mut servers: Vec<Child> = (0..count)
        .map(|_| {
            let mut command = Command::new(ECHO);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            command.spawn().expect("a server")
        })
        .collect();
    let pids: Vec<_> = servers
        .iter()
        .map(|server| server.id().to_string())
        .collect();
    let begun = Instant::now();
    let status = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("kill {}", pids.join(" ")))
        .status();
    assert!(status.expect("a shell").success());
    for server in &mut servers {
        let mut rest = Vec::new();
        server
            .stdout
            .take()
            .expect("a pipe")
            .read_to_end(&mut rest)
            .expect("its end");
        server.wait().expect("its status");
    }
    begun.elapsed()
}
