//! The difference: a server that leaves a helper behind is launched twice, once as a child
//! process that is closed and waited for, and once by a `LifecycleClient`.
//!
//! ```text
//! examples/run
//! ```
//!
//! Each helper holds a connection to this program, so that its end is seen as end of file. The
//! last line is `survivors: 0`, or the exit status is not zero.

#[path = "main_job/embedded.rs"]
mod embedded;

use std::error::Error;
use std::io::{Read, Write};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::rmcp::ServiceExt;
use mcp_lifecycle_core::rmcp::model::CallToolRequestParams;
use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerSpec};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The role of the leaky server, and that of its helper; the port of this program follows.
const SERVER: &str = "--leaky-server";
const HELPER: &str = "--helper";

/// The bound on every wait. Reached only by a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The time that a helper has to follow its server: far more than it takes.
const FOLLOWS: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [SERVER, port] => match start_helper(port) {
            Ok(()) => return embedded::serve().await,
            Err(error) => Err(error),
        },
        [HELPER, port] => stay(port),
        _ => compare().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn compare() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port().to_string();
    let this = std::env::current_exe()?;
    println!("A server that starts a helper and exits at the end of its input:\n");

    println!("1. as a child process, closed and waited for");
    let mut child = Command::new(&this)
        .args([SERVER, &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let streams = child.stdout.take().zip(child.stdin.take());
    let service = ().serve(streams.ok_or("no pipes")?).await?;
    let mut helper = Helper::accept(&listener).await?;
    println!("   tools:     {}", service.list_all_tools().await?.len());
    service.cancel().await?;
    println!("   server:    {}", timeout(LIMIT, child.wait()).await??);
    match helper.has_gone(FOLLOWS).await {
        true => println!("   helper:    gone"),
        false => println!(
            "   helper:    pid {} STILL RUNS, without an owner",
            helper.pid
        ),
    }
    // It ends when its connection does; a real one would stay.
    drop(helper);

    println!("\n2. by a LifecycleClient");
    let spec = ServerSpec::builder("leaky", &this).args([SERVER, &port]);
    let server = ServerConfig::new(Arc::new(LocalLauncher::new()), spec.build()?);
    let client = LifecycleClient::start(server).await?;
    let mut helper = Helper::accept(&listener).await?;
    println!("   tools:     {}", client.list_all_tools().await?.len());
    let arguments = json!({ "message": "hello" });
    let echo = CallToolRequestParams::new("echo")
        .with_arguments(arguments.as_object().cloned().unwrap_or_default());
    let answer = client.call_tool(echo).await?;
    let text = answer.content.first().and_then(|block| block.as_text());
    println!("   echo:      {}", text.map_or("", |text| &text.text));
    let report = client.shutdown().await?;
    let gone = helper.has_gone(FOLLOWS).await;
    match gone {
        true => println!("   helper:    gone\n\n{report}"),
        false => println!("   helper:    pid {} still runs\n\n{report}", helper.pid),
    }
    println!("survivors: {}", u8::from(!gone));
    gone.then_some(())
        .ok_or_else(|| "the helper is out of this system's reach".into())
}

/// A helper, as this program sees it.
struct Helper {
    pid: String,
    connection: BufReader<TcpStream>,
}

impl Helper {
    async fn accept(listener: &TcpListener) -> Result<Self> {
        let (connection, _) = timeout(LIMIT, listener.accept()).await??;
        let mut connection = BufReader::new(connection);
        let mut pid = String::new();
        timeout(LIMIT, connection.read_line(&mut pid)).await??;
        let pid = pid.trim().to_owned();
        Ok(Self { pid, connection })
    }

    /// Returns whether its end is seen within this time.
    async fn has_gone(&mut self, within: Duration) -> bool {
        let mut rest = [0];
        timeout(within, self.connection.read(&mut rest))
            .await
            .is_ok()
    }
}

/// Starts a helper that the end of this process does not reach.
fn start_helper(port: &str) -> Result<()> {
    let mut helper = std::process::Command::new(std::env::current_exe()?);
    helper.args([HELPER, port]);
    helper
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut helper, 0);
    helper.spawn()?;
    Ok(())
}

/// Stays until the demonstration lets it go.
fn stay(port: &str) -> Result<()> {
    let mut connection = std::net::TcpStream::connect(format!("127.0.0.1:{port}"))?;
    connection.set_read_timeout(Some(LIMIT))?;
    writeln!(connection, "{}", std::process::id())?;
    connection.read_to_end(&mut Vec::new())?;
    Ok(())
}
