//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use mcp_lifecycle_core::ServerSpec;
use rmcp::model::{CallToolRequestParams, Tool};

use crate::launcher::{docker, executor, kubernetes};

/// Launch an MCP server, use it, end it, and prove that nothing is left.
#[derive(Debug, Parser)]
#[command(name = "main_job")]
pub(crate) struct Arguments {
    /// Where the server runs.
    #[arg(long, value_enum, default_value_t = LauncherName::Local)]
    pub(crate) launcher: LauncherName,

    #[command(flatten)]
    pub(crate) executor: executor::Options,

    #[command(flatten)]
    pub(crate) docker: docker::Options,

    #[command(flatten)]
    pub(crate) kubernetes: kubernetes::Options,

    /// The tool to call; without it, the embedded server's `echo` is called and
    /// other servers' tools are only listed.
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,

    /// The arguments of the call, as a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "call")]
    arguments: String,

    /// Show the server's standard error as it comes.
    #[arg(long)]
    pub(crate) stderr: bool,

    /// The working directory of the server.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Set an environment variable of the server.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Pass an environment variable through to the server.
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,

    /// How long launch and handshake may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    startup_timeout: u64,

    /// Be the embedded server instead.
    #[arg(long, hide = true)]
    pub(crate) embedded_server: bool,

    /// The command that runs a stdio MCP server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The launchers that this example composes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LauncherName {
    /// A process on this machine.
    Local,
    /// A process on another machine, through an executor.
    Executor,
    /// A container.
    Docker,
    /// A pod.
    Kubernetes,
}

impl Arguments {
    pub(crate) fn startup_timeout(&self) -> Duration {
        Duration::from_secs(self.startup_timeout)
    }

    pub(crate) fn spec(&self) -> Result<ServerSpec, String> {
        let mut spec = match self.command.split_first() {
            Some((program, args)) => {
                let name = program.to_string_lossy();
                let name = name.rsplit('/').next().unwrap_or("server").to_owned();
                ServerSpec::builder(name, program).args(args)
            }
            None if self.is_described_by_image() => {
                ServerSpec::builder_without_command(self.docker.server_name())
            }
            None => {
                let this = std::env::current_exe()
                    .map_err(|error| format!("this program cannot find itself: {error}"))?;
                ServerSpec::builder("embedded", this).arg("--embedded-server")
            }
        };
        match self.launcher {
            LauncherName::Docker => spec = self.docker.apply(spec)?,
            LauncherName::Kubernetes => {
                spec = self.kubernetes.apply(self.docker.image(), spec)?;
            }
            LauncherName::Local | LauncherName::Executor => {}
        }
        if let Some(dir) = &self.cwd {
            spec = spec.cwd(dir);
        }
        for variable in &self.env {
            let Some((name, value)) = variable.split_once('=') else {
                return Err(format!("--env {variable}: expected NAME=VALUE"));
            };
            spec = spec.env(name, value);
        }
        for name in &self.pass_env {
            spec = spec.pass_env(name);
        }
        spec.build().map_err(|error| error.to_string())
    }

    fn is_described_by_image(&self) -> bool {
        let has_image = matches!(
            self.launcher,
            LauncherName::Docker | LauncherName::Kubernetes
        );
        has_image && self.command.is_empty()
    }

    /// The call to make, if any.
    pub(crate) fn call(&self, tools: &[Tool]) -> Result<Option<CallToolRequestParams>, String> {
        let (name, arguments) = match &self.call {
            Some(name) => (name.clone(), self.arguments.as_str()),
            None if self.command.is_empty() && !self.is_described_by_image() => (
                "echo".to_owned(),
                r#"{"message":"hello from the main job"}"#,
            ),
            None => return Ok(None),
        };
        if !tools.iter().any(|tool| tool.name == name) {
            return Err(format!("the server has no tool `{name}`"));
        }
        let arguments = serde_json::from_str(arguments)
            .map_err(|error| format!("--arguments is not a JSON object: {error}"))?;
        Ok(Some(
            CallToolRequestParams::new(name).with_arguments(arguments),
        ))
    }
}
