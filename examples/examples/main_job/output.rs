//! Output for the person at the terminal.

use mcp_lifecycle_core::LifecycleClient;
use mcp_lifecycle_core::client::{ServerEvent, ServerEventKind, ServerObserver};
use rmcp::model::{CallToolResult, Tool};

/// Prints transitions, and standard error if asked to.
pub(crate) struct Printer {
    stderr: bool,
}

impl Printer {
    pub(crate) fn new(stderr: bool) -> Self {
        Self { stderr }
    }
}

impl ServerObserver for Printer {
    fn on_event(&self, event: &ServerEvent) {
        match &event.kind {
            ServerEventKind::Launched { identity, took } => {
                println!("launched:    {identity} in {took:.1?}");
            }
            ServerEventKind::Ready { era, took, .. } => {
                println!("ready:       {era:?} protocol, after {took:.1?}");
            }
            ServerEventKind::Exited { exit } => println!("exited:      {exit}"),
            ServerEventKind::Progress(step) => println!("progress:    {step}"),
            _ => {}
        }
    }

    fn on_stderr(&self, _: &str, server: &str, line: &str) {
        if self.stderr {
            eprintln!("[{server}] {line}");
        }
    }
}

pub(crate) fn server(client: &LifecycleClient) {
    let Some(info) = client.server_info() else {
        return;
    };
    let version = &info.protocol_version;
    match &info.server_info {
        Some(server) => println!(
            "server:      {} {} (protocol {version})",
            server.name, server.version
        ),
        None => println!("server:      protocol {version}"),
    }
}

pub(crate) fn tools(tools: &[Tool]) {
    println!("tools:       {}", tools.len());
    for tool in tools {
        let description = tool.description.as_deref().unwrap_or_default();
        let first_line = description.lines().next().unwrap_or_default();
        println!("  {:<28} {first_line}", tool.name);
    }
}

pub(crate) fn result(result: &CallToolResult) {
    let failed = result.is_error.unwrap_or(false);
    println!("result:      {}", if failed { "error" } else { "ok" });
    for block in &result.content {
        match block.as_text() {
            Some(text) => println!("  {}", text.text),
            None => println!("  {}", serde_json::to_string(block).unwrap_or_default()),
        }
    }
}
