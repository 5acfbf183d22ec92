//! An application with an rmcp service loop of its own adds one line.
//! docs/moving-from-tokio-child-process.md shows what changes for it.
//!
//! ```text
//! cargo run --example own_service_loop -- npx -y @modelcontextprotocol/server-memory
//! ```

use std::error::Error;

#[cfg(target_os = "linux")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    use mcp_tree::Contained;
    use process_wrap::tokio::CommandWrap;
    use rmcp::service::ServiceExt;
    use rmcp::transport::TokioChildProcess;
    use tokio::process::Command;

    let mut arguments = std::env::args().skip(1);
    let program = arguments
        .next()
        .ok_or("usage: own_service_loop PROGRAM [ARGUMENT...]")?;
    let mut command = Command::new(program);
    command.args(arguments);

    let contained = Contained::new();
    let outcome = contained.outcome();
    let mut command = CommandWrap::from(command);
    command.wrap(contained);
    let service = ().serve(TokioChildProcess::new(command)?).await?;
    for tool in service.list_all_tools().await? {
        println!("{}", tool.name);
    }
    service.cancel().await?;
    println!("{}", outcome.await?.exit);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("`Contained` is for Linux; elsewhere a launcher and an `OwnedTransport` do this".into())
}
