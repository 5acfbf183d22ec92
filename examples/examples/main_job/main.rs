//! The main job, end to end: launch an MCP server, use it, end it, and prove
//! that nothing is left.
//!
//! ```text
//! cargo run -p mcp-lifecycle-examples --example main_job
//! cargo run -p mcp-lifecycle-examples --example main_job -- \
//!     --call echo --arguments '{"message":"hi"}' -- npx -y @modelcontextprotocol/server-everything
//! cargo run -p mcp-lifecycle-examples --example main_job -- \
//!     --launcher executor --url ws://127.0.0.1:7400
//! cargo run -p mcp-lifecycle-examples --example main_job -- \
//!     --launcher executor --command "ssh host mcp-executor --stdio" -- npx -y some-server
//! cargo run -p mcp-lifecycle-examples --example main_job -- \
//!     --launcher docker --image mcp/time
//! ```
//!
//! Without a command it uses an MCP server embedded in this very program. The
//! last line is `survivors: 0`, or the exit status is not zero.

mod arguments;
mod embedded;
mod launcher;
mod output;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mcp_lifecycle_core::LifecycleClient;
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::launch::ErrorChain;
use mcp_lifecycle_core::terminate::{TerminationOutcome, TerminationPolicy};

use arguments::Arguments;
use output::Printer;

/// How long the proof of a forced end may take.
const PROOF: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.embedded_server {
        return embedded::serve().await;
    }
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match run(&arguments).await {
        Ok(outcome) => report(&outcome),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything between launch and the proof. An error here means that nothing
/// was started, or that it was ended before the error was returned.
async fn run(arguments: &Arguments) -> Result<TerminationOutcome, String> {
    let launcher = launcher::choose(arguments).await?;
    let spec = arguments.spec()?;
    println!("launching:   {}", spec.display_command());
    println!("containment: {}", launcher.semantics().containment);
    // A bound alone: what comes from elsewhere, as a kubelet's word, may be late.
    let termination = TerminationPolicy::new().kill_confirmation(PROOF);
    let config = ServerConfig::new(launcher, spec)
        .startup_timeout(arguments.startup_timeout())
        .termination(termination);
    let client = LifecycleClient::builder(config)
        .observer(Printer::new(arguments.stderr))
        .start();
    // Dropping the start undoes it.
    let client = tokio::select! {
        started = client => started.map_err(|error| ErrorChain(&error).to_string())?,
        () = interrupted() => return Err("interrupted while starting".to_owned()),
    };
    let used = tokio::select! {
        used = use_it(&client, arguments) => used,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    if let Err(problem) = used {
        eprintln!("error: {problem}");
    }
    Ok(client.shutdown().await)
}

async fn use_it(client: &LifecycleClient, arguments: &Arguments) -> Result<(), String> {
    output::server(client);
    let tools = client.list_all_tools().await;
    let tools = tools.map_err(|error| ErrorChain(&error).to_string())?;
    output::tools(&tools);
    if let Some(call) = arguments.call(&tools)? {
        println!("calling:     {}", call.name);
        let result = client.call_tool(call).await;
        let result = result.map_err(|error| ErrorChain(&error).to_string())?;
        output::result(&result);
    }
    Ok(())
}

fn report(outcome: &TerminationOutcome) -> ExitCode {
    match outcome {
        Ok(report) => {
            println!("\n{report}");
            println!("survivors: 0");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", ErrorChain(error));
            println!("survivors: {}", error.context().survivors.len().max(1));
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
