//! An application with an rmcp service loop of its own takes only the launcher and the
//! transport. docs/moving-from-tokio-child-process.md shows what changes for it.
//!
//! ```text
//! cargo run --example own_service_loop -- npx -y @modelcontextprotocol/server-memory
//! ```

use std::error::Error;

use mcp_launcher_local::LocalLauncher;
use rmcp::service::ServiceExt;
use tokio::process::Command;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments
        .next()
        .ok_or("usage: own_service_loop PROGRAM [ARGUMENT...]")?;
    let mut command = Command::new(program);
    command.args(arguments);

    let transport = LocalLauncher::new().transport(command).await?;
    let outcome = transport.outcome();
    let service = ().serve(transport).await?;
    for tool in service.list_all_tools().await? {
        println!("{}", tool.name);
    }
    service.cancel().await?;
    println!("{}", outcome.await?);
    Ok(())
}
