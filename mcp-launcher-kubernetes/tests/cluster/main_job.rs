//! The main job with a server in a pod: the real example, which the lane has built.

use std::process::Command;

use crate::support::Namespace;

#[tokio::test]
async fn the_main_job_leaves_no_pod() {
    let ns = Namespace::new("main-job");
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/main_job");
    let output = Command::new(example)
        .args(["--launcher", "kubernetes", "--namespace", &ns.0])
        .args([
            "--image",
            "localhost/mcp-fixture:1",
            "--run-as-user",
            "65534",
        ])
        .args(["--pod", r#"{"spec": {"hostNetwork": true}}"#])
        .args(["--call", "echo", "--arguments", r#"{"text":"from within"}"#])
        .args(["--", "/mcp-fixture", "plain"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("from within"), "{text}");
    assert_eq!(text.lines().last(), Some("survivors: 0"), "{text}");
    assert!(ns.names("pods,leases").is_empty());
}
