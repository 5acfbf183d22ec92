//! The examples for applications that have a service loop or a protocol of their own.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Reached only by a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// An example that cargo has put beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name)
}

async fn output(name: &str, args: &[&str]) -> String {
    let mut command = Command::new(example(name));
    let output = command.args(args).kill_on_drop(true).output();
    let output = timeout(LIMIT, output).await.expect("in time").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

#[tokio::test]
async fn a_service_loop_of_ones_own() {
    let server = example("main_job");
    let output = output(
        "own_service_loop",
        &[server.to_str().unwrap(), "--embedded-server"],
    )
    .await;
    assert!(output.starts_with("echo\n"), "{output}");
    assert!(output.contains("exit code 0"), "{output}");
}

/// The bare server leaves its helper behind, the other one leaves nothing.
#[tokio::test]
async fn the_demonstration() {
    let output = output("demo", &[]).await;
    let bare = output.contains("STILL RUNS");
    assert!(bare && output.ends_with("survivors: 0\n"), "{output}");
}

/// A server of another protocol, in a shell: it answers the first message that it gets
/// with its own name, and leaves at end of file.
const LANGUAGE_SERVER: &str = r#"
read -r header; read -r blank
length=${header#Content-Length: }
dd bs=1 count="${length%?}" 2>/dev/null >&2
body='{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"shell"}}}'
printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body"
cat >/dev/null
"#;

#[tokio::test]
async fn another_protocol() {
    let output = output("other_protocol", &["/bin/sh", "-c", LANGUAGE_SERVER]).await;
    assert!(output.starts_with("{\"name\":\"shell\"}\n"), "{output}");
    assert!(output.contains("exit code 0"), "{output}");
}
