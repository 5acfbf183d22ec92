//! A server that is `sh` that runs `docker run`, ended by two clients.
//!
//! The plain client does what most hosts do: it closes the server's input, waits,
//! and kills the process it started. The container stays. With a
//! `ContainerTracker` around the local launcher it is gone, and the report says
//! so.
//!
//! ```text
//! cargo run -p mcp-lifecycle-examples --example docker_wrapper_demo -- IMAGE [COMMAND...]
//! ```
//!
//! The image's command has to ignore the end of its input, as many servers do:
//! `busybox sleep 1000`.

use std::error::Error;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_docker::{ContainerTracker, ReapPolicy};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::LaunchContext;
use mcp_lifecycle_core::{EndReason, ServerHandle, ServerLauncher, ServerSpec, TerminationPolicy};

const LABEL: &str = "mcp-demo";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let image: Vec<String> = std::env::args().skip(1).collect();
    if image.is_empty() {
        return Err("which image? for instance: busybox sleep 1000".into());
    }
    let script = format!(
        "docker run -i --rm --network none --label {LABEL} {}; true",
        image.join(" ")
    );

    println!("a plain client:");
    plain(&script).await?;
    println!("  containers left: {:?}", containers()?);
    for id in containers()? {
        docker(&["rm", "-f", &id])?;
    }

    println!("a client that tracks containers:");
    tracked(&script).await?;
    println!("  containers left: {:?}", containers()?);
    Ok(())
}

/// Closes the input, waits, kills the process.
async fn plain(script: &str) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    until_there().await?;
    drop(child.stdin.take());
    tokio::time::sleep(Duration::from_secs(1)).await;
    child.kill()?;
    child.wait()?;
    Ok(())
}

async fn tracked(script: &str) -> Result<(), Box<dyn Error>> {
    let launcher = ContainerTracker::new(Arc::new(LocalLauncher::new())).reap(ReapPolicy::Tied);
    let mut spec = ServerSpec::builder("demo", "sh").args(["-c", script]);
    for name in ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"] {
        spec = spec.pass_env(name);
    }
    let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher);
    let parts = launcher
        .launch(&spec.build()?, &LaunchContext::new())
        .await?
        .into_parts();
    let (server, _stdin) = ServerHandle::new("demo", parts.stdin, parts.terminator);
    until_there().await?;
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_secs(1))
        .term_grace(Duration::from_secs(1));
    let report = server.terminate(&policy, EndReason::Shutdown).await?;
    for line in report.to_string().lines() {
        println!("  {line}");
    }
    Ok(())
}

async fn until_there() -> Result<(), Box<dyn Error>> {
    while containers()?.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn containers() -> Result<Vec<String>, Box<dyn Error>> {
    let text = docker(&["ps", "-q", "--filter", &format!("label={LABEL}")])?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn docker(args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new("docker").args(args).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
