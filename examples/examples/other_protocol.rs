//! A language server, or any program that speaks over its standard input and output: the
//! plain streams and the handle that owns the process, and nothing of MCP.
//!
//! ```text
//! cargo run --example other_protocol -- rust-analyzer
//! ```

use std::error::Error;
use std::io;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::{EndReason, TerminationPolicy};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut command = std::env::args().skip(1);
    let program = command
        .next()
        .ok_or("usage: other_protocol PROGRAM [ARGUMENT...]")?;
    let spec = ServerSpec::builder("language", program)
        .args(command)
        .build()?;
    let launched = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await?;

    let (handle, streams) = launched.into_handle("language");
    let (stdout, mut stdin) = streams.into_pair();
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "processId": null, "rootUri": null, "capabilities": {} },
    });
    send(&mut stdin, &initialize).await?;
    let answer = receive(&mut BufReader::new(stdout)).await?;
    println!("{}", answer["result"]["serverInfo"]);

    println!(
        "{}",
        handle
            .terminate(&TerminationPolicy::new(), EndReason::Shutdown)
            .await?
    );
    Ok(())
}

/// One message of the Language Server Protocol: a header and a body.
async fn send(stdin: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let body = message.to_string();
    let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stdin.write_all(message.as_bytes()).await?;
    stdin.flush().await
}

async fn receive(stdout: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stdout.read_line(&mut line).await?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().map_err(io::Error::other)?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stdout.read_exact(&mut body).await?;
    serde_json::from_slice(&body).map_err(io::Error::other)
}
