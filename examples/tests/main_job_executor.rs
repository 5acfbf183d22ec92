//! The main job through an executor: the real example, the real daemon.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// Reached only by a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that cargo puts beside the tests of the workspace.
fn built(program: &str, how: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join(program);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build {how}` first",
        path.display()
    );
    path
}

fn daemon() -> PathBuf {
    built("mcp-executor", "-p mcp-executor")
}

/// Runs the main job; its output.
async fn main_job(args: &[&str]) -> String {
    let example = built("examples/main_job", "-p mcp-lifecycle-examples --examples");
    let mut command = Command::new(example);
    command.args(["--launcher", "executor"]).args(args);
    let output = command.kill_on_drop(true).output();
    let output = timeout(LIMIT, output).await.expect("in time").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

fn check(output: &str) {
    assert!(output.contains("hello from the main job"), "{output}");
    assert_eq!(output.lines().last(), Some("survivors: 0"), "{output}");
}

#[tokio::test]
async fn through_a_daemon_that_listens() {
    let mut daemon = Command::new(daemon())
        .args(["--listen", "ws://127.0.0.1:0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    let url = timeout(LIMIT, lines.next_line()).await.expect("in time");
    let url = url.unwrap().expect("the daemon says its URL");
    check(&main_job(&["--url", &url]).await);
    daemon.kill().await.unwrap();
}

#[tokio::test]
async fn through_the_standard_streams_of_a_command() {
    let command = format!("{} --stdio", daemon().display());
    check(&main_job(&["--command", &command]).await);
}

#[tokio::test]
async fn without_an_executor_it_says_what_is_missing() {
    let example = built("examples/main_job", "-p mcp-lifecycle-examples --examples");
    let run = Command::new(example)
        .args(["--launcher", "executor"])
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, run).await.expect("in time").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("--url or --command"), "{errors}");
}
