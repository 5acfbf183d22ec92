//! An agent host in miniature: many servers, several agents, and nothing left.
//!
//! ```text
//! cargo run -p mcp-lifecycle-examples --example agent_host
//! cargo run -p mcp-lifecycle-examples --example agent_host -- path/to/mcp.json
//! ```
//!
//! It reads the servers from a file (`mcpServers` JSON as other hosts have it, or
//! Codex's TOML), starts all of them with progress on the terminal, runs agents
//! in parallel on a pool, refreshes the set while calls are in flight, prints
//! what runs and why, and shuts down. Without a file it uses servers embedded in
//! this very program. Ctrl-C at any time ends everything.

mod agents;
#[path = "../main_job/embedded.rs"]
mod embedded;
mod progress;
mod table;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::config::{ConfigReader, Format, LauncherRegistry, ServerSet};
use mcp_lifecycle_core::fleet::{RefreshErrorKind, ShutdownError, ShutdownReport};
use mcp_lifecycle_core::launch::ErrorChain;
use mcp_lifecycle_core::{ServerManager, ServerPool};
use serde_json::json;

use table::RecordTable;

/// How long everything together may take to end.
const END: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some(EMBEDDED) {
        return embedded::serve().await;
    }
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let launchers = LauncherRegistry::new(Arc::new(LocalLauncher::new()));
    let read = |generation: u32| read(argument.as_deref(), &launchers, generation);
    let (first, second) = match (read(1), read(2)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    for skipped in &first.skipped {
        println!("skipped: {skipped}");
    }
    let manager = ServerManager::builder("host")
        .observer(progress::print)
        .build();
    let pool = ServerPool::builder("agents")
        .observer(progress::print)
        .build();
    // From here on no path out of this program can forget a server.
    manager.tie_to(interrupted(), END);
    pool.tie_to(interrupted(), END);

    let worked = work(&manager, &pool, first, second).await;
    if let Err(problem) = &worked {
        eprintln!("error: {problem}");
    }
    let (agents, host) = tokio::join!(pool.shutdown(END), manager.shutdown(END));
    let proven = [("agents", agents), ("host", host)].map(|(owner, ended)| conclude(owner, ended));
    if worked.is_ok() && proven == [true, true] {
        println!("survivors: 0");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

async fn work(
    manager: &ServerManager,
    pool: &ServerPool,
    first: ServerSet,
    second: ServerSet,
) -> Result<(), String> {
    println!("\n== starting {} servers", first.servers.len());
    match manager.refresh(first.servers.clone()).await {
        Ok(report) => println!("summary: {report}"),
        // The others run; a real host would decide here.
        Err(error) if matches!(error.kind(), RefreshErrorKind::Required(_)) => {
            println!("summary: {error}");
        }
        Err(error) => return Err(error.to_string()),
    }

    println!("\n== agents at work, and a refresh meanwhile");
    let crew = agents::run(pool, &first.servers);
    let refresh = manager.refresh(second.servers);
    let listing = async {
        // When the agents hold their leases, there is most to see.
        agents::holding(pool, agents::CREW).await;
        println!(
            "\n{}{}",
            RecordTable(&manager.list()),
            RecordTable(&pool.list())
        );
    };
    let (answers, refreshed, ()) = tokio::join!(crew, refresh, listing);
    for answer in answers {
        println!("{answer}");
    }
    match refreshed {
        Ok(report) => println!("refresh: {report}"),
        Err(error) => println!("refresh: {error}"),
    }

    println!("\n== what is left when the agents have gone\n");
    println!(
        "{}{}",
        RecordTable(&manager.list()),
        RecordTable(&pool.list())
    );
    Ok(())
}

fn conclude(owner: &str, ended: Result<ShutdownReport, ShutdownError>) -> bool {
    match ended {
        Ok(report) => {
            println!(
                "{owner}: {} servers ended, with proof, in {:.1?}",
                report.ends.len(),
                report.took
            );
            true
        }
        Err(error) => {
            eprintln!("{owner}: {error}");
            false
        }
    }
}

const EMBEDDED: &str = "--embedded-server";

/// The file, or the servers of this program. `GENERATION` is ours: a file that
/// uses it has servers that the refresh replaces.
fn read(
    file: Option<&str>,
    launchers: &LauncherRegistry,
    generation: u32,
) -> Result<ServerSet, String> {
    let lookup = move |name: &str| match name {
        "GENERATION" => Some(generation.to_string()),
        _ => std::env::var(name).ok(),
    };
    let reader = ConfigReader::new(launchers).variables(lookup);
    let set = match file {
        Some(file) => reader.read_file(file),
        None => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            let own = json!({ "command": program, "args": [EMBEDDED], "required": true });
            let mut changing = own.clone();
            changing["env"] = json!({ "GENERATION": "${GENERATION}" });
            let far = json!({ "url": "https://example.com/mcp" });
            let servers =
                json!({ "mcpServers": { "steady": own, "changing": changing, "far": far } });
            reader.read_str(&servers.to_string(), Format::Json)
        }
    };
    set.map_err(|error| ErrorChain(&error).to_string())
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
