//! The end of 492 servers: 4 kinds, 123 of each.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::ServerManager;
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::common::{ECHO, FIXTURE, Options, echo, launcher, verdict};

const KINDS: usize = 4;
const EACH: usize = 123;

pub(crate) async fn run(options: &Options) {
    let each = options.scaled(EACH);
    let launcher = launcher();
    stubborn(&launcher, each).await;
    cooperative(&launcher, each).await;
}

/// All ignore end of file and SIGTERM.
async fn stubborn(launcher: &Arc<dyn ServerLauncher>, each: usize) {
    let policy = TerminationPolicy::new();
    let server = |n: usize| {
        let spec = ServerSpec::builder(format!("s{n}"), FIXTURE).args(["ignore-eof-term"]);
        let config = ServerConfig::new(Arc::clone(launcher), spec.build().expect("valid"));
        config.with_startup_timeout(Duration::from_secs(300))
    };
    let took = end((0..KINDS * each).map(server)).await;
    let limit = policy.eof_grace + policy.term_grace + Duration::from_millis(500);
    let what = format!(
        "{} stubborn servers within their graces + 0.5 s",
        KINDS * each
    );
    verdict(
        &what,
        took <= limit,
        format_args!("{took:.2?} of {limit:.2?}"),
    );
}

async fn cooperative(launcher: &Arc<dyn ServerLauncher>, each: usize) {
    let ours = end((0..KINDS * each).map(|n| echo(launcher, &format!("s{n}"), n))).await;
    let shell = killed_by_a_shell(KINDS * each);
    let ratio = ours.as_secs_f64() / shell.as_secs_f64();
    let what = format!("{} cooperative servers within 1.8x of `kill`", KINDS * each);
    verdict(
        &what,
        ratio <= 1.8,
        format_args!("{ratio:.2}x ({ours:.2?} and {shell:.2?})"),
    );
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
