//! On another machine, through an executor: `mcp-executor`, or
//! `codex exec-server`.

use std::sync::Arc;

use clap::Args;
use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use mcp_lifecycle_core::ServerLauncher;
use mcp_lifecycle_core::launch::ErrorChain;

/// Where the executor is.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --launcher executor")]
pub(crate) struct Options {
    /// The executor listens here.
    #[arg(
        long,
        value_name = "ws[s]://HOST:PORT",
        conflicts_with = "connect_command"
    )]
    url: Option<String>,

    /// The executor speaks on the standard streams of this command, which is
    /// split at spaces: `mcp-executor --stdio`, `ssh host mcp-executor --stdio`.
    #[arg(id = "connect_command", long = "command", value_name = "COMMAND")]
    command: Option<String>,

    /// A file with the bearer token for --url; MCP_EXECUTOR_TOKEN does as well.
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<std::path::PathBuf>,

    /// Trust the certificates of this PEM file for wss://, instead of the public ones.
    #[arg(long, value_name = "FILE", requires = "url")]
    trust: Option<std::path::PathBuf>,
}

impl Options {
    fn config(&self) -> Result<ExecServerConfig, String> {
        if let Some(command) = &self.command {
            let mut words = command.split_whitespace();
            let program = words.next().ok_or("--command is empty")?;
            return Ok(ExecutorLauncher::command(program, words));
        }
        let Some(url) = &self.url else {
            return Err("--launcher executor needs --url or --command".to_owned());
        };
        let mut config = ExecutorLauncher::websocket(url);
        if let Some(file) = &self.token_file {
            let token = std::fs::read_to_string(file)
                .map_err(|error| format!("--token-file {}: {error}", file.display()))?;
            config = config.token(token.trim());
        } else if let Ok(token) = std::env::var("MCP_EXECUTOR_TOKEN") {
            config = config.token(token.trim());
        }
        if let Some(file) = &self.trust {
            config = config.trust(file);
        }
        Ok(config)
    }
}

pub(crate) async fn launcher(options: &Options) -> Result<Arc<dyn ServerLauncher>, String> {
    let executor = ExecutorLauncher::connect(options.config()?).await;
    let executor = executor.map_err(|error| ErrorChain(&error).to_string())?;
    Ok(Arc::new(executor))
}
