//! The main job with a server in a container: the real example.

use std::process::{Command, Output};

use crate::support::{Rig, eventually};

/// Runs the example, which `tests/containers` has built beside this test.
fn main_job(rig: &Rig, args: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/main_job");
    assert!(
        example.exists(),
        "{} is missing: cargo build -p mcp-lifecycle-examples --example main_job",
        example.display()
    );
    Command::new(example)
        .args(["--launcher", "docker"])
        .args(args)
        .env("DOCKER_HOST", &rig.engine.host)
        .output()
        .unwrap()
}

#[tokio::test]
async fn the_main_job_leaves_no_container() {
    let Some(rig) = Rig::new("main-job") else {
        return;
    };
    let image = ["--image", "mcp-fixture:test", "--network", "none"];
    let call = ["--call", "echo", "--arguments", r#"{"text":"from within"}"#];
    let command = ["--", "/mcp-fixture", "plain"];
    let output = main_job(&rig, &[&image[..], &call, &command].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("from within"), "{text}");
    assert_eq!(text.lines().last(), Some("survivors: 0"), "{text}");
    let id = text
        .split("container ")
        .nth(1)
        .expect("names the container");
    let id = id.split_whitespace().next().unwrap();
    let found = || {
        rig.engine
            .docker(&["ps", "-aq", "--filter", &format!("id={id}")])
    };
    eventually("the container is gone", || found().is_empty()).await;
}

#[tokio::test]
async fn the_main_job_needs_an_image() {
    let Some(rig) = Rig::new("no-image") else {
        return;
    };
    let output = main_job(&rig, &[]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("--image"), "{errors}");
}
