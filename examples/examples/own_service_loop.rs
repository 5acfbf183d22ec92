//! An application with an rmcp service loop of its own takes only the launcher and the
//! transport. docs/moving-from-tokio-child-process.md shows what changes for it.
//!
//! ```text
//! cargo run --example own_service_loop -- npx -y @modelcontextprotocol/server-memory
//! ```

use std::error::Error;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::ServerTransport;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use rmcp::service::ServiceExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut command = std::env::args().skip(1);
    let program = command
        .next()
        .ok_or("usage: own_service_loop PROGRAM [ARGUMENT...]")?;
    let spec = ServerSpec::builder("server", program)
        .args(command)
        .build()?;
    let launched = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await?;

    let transport = ServerTransport::new("server", launched);
    let outcome = transport.outcome();
    let service = ().serve(transport).await?;
    for tool in service.list_all_tools().await? {
        println!("{}", tool.name);
    }
    service.cancel().await?;
    println!("{}", outcome.await?);
    Ok(())
}
