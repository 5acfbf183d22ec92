//! A launched fixture, driven by hand: no client in between.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_lifecycle_core::launch::{BoxRead, LaunchedServer, ProcessTerminator};
use mcp_lifecycle_core::terminate::{
    EndReason, ServerHandle, ServerStdin, TerminationPolicy, TerminationReport,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::{Check, Failure};
use crate::fixture::Script;

/// A launched fixture and what the kit holds of it.
pub(crate) struct Server {
    pub(crate) handle: ServerHandle,
    pub(crate) terminator: Arc<dyn ProcessTerminator>,
    pub(crate) stdin: ServerStdin,
    /// Standard output, and standard error if it is kept apart. Behind a lock only to
    /// be `Sync`: nobody shares it.
    output: Mutex<Vec<BoxRead>>,
}

impl Server {
    pub(crate) fn own(launched: LaunchedServer) -> Self {
        let parts = launched.into_parts();
        let (handle, stdin) =
            ServerHandle::new("fixture", parts.stdin, Arc::clone(&parts.terminator));
        let mut output = vec![parts.stdout];
        output.extend(parts.stderr);
        Self {
            handle,
            terminator: parts.terminator,
            stdin,
            output: Mutex::new(output),
        }
    }

    /// Says what makes the fixture misbehave.
    pub(crate) async fn say(&mut self, script: Script, limit: Duration) -> Check {
        let mut lines = String::new();
        if script != Script::Nothing {
            lines.push_str(&line(&json!({
                "jsonrpc": "2.0", "id": 0, "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "conformance", "version": "0"},
                },
            })));
            lines.push_str(&line(
                &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            ));
        }
        if script == Script::Call {
            lines.push_str(&call("echo"));
        }
        self.write(&lines, limit).await
    }

    /// Lets the main process exit by itself.
    pub(crate) async fn say_exit(&mut self, limit: Duration) -> Check {
        self.write(&call("exit"), limit).await
    }

    async fn write(&mut self, lines: &str, limit: Duration) -> Check {
        let written = timeout(limit, self.stdin.write_all(lines.as_bytes())).await;
        match written {
            // A server that exits by itself need not have read it all.
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::new("its stdin takes not even a few lines")),
        }
    }

    /// Takes standard output, and standard error if it is kept apart.
    pub(crate) fn take_output(&mut self) -> (Option<BoxRead>, Option<BoxRead>) {
        let output = self.output.get_mut();
        let mut output = output.unwrap_or_else(PoisonError::into_inner).drain(..);
        (output.next(), output.next())
    }

    /// The end of what it has written to standard error.
    pub(crate) async fn last_words(&mut self, limit: Duration) -> String {
        const MOST: usize = 1000;
        let mut text = Vec::new();
        if let (_, Some(mut stderr)) = self.take_output() {
            let _ = timeout(limit, (&mut stderr).take(1 << 20).read_to_end(&mut text)).await;
        }
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(MOST)..]);
        text.trim().to_owned()
    }

    /// Asks for an answer on standard output.
    pub(crate) async fn say_echo(&mut self, limit: Duration) -> Check {
        self.write(&call("echo"), limit).await
    }

    /// Reads its output, to no purpose, until it ends.
    pub(crate) fn drain(&mut self) -> Drains {
        let drain = |mut output: BoxRead| {
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            })
        };
        let output = self.output.get_mut();
        let output = output.unwrap_or_else(PoisonError::into_inner);
        Drains(output.drain(..).map(drain).collect())
    }

    /// Ends it in order.
    pub(crate) async fn terminate(
        &self,
        policy: &TerminationPolicy,
    ) -> Check<Arc<TerminationReport>> {
        Ok(self.handle.terminate(policy, EndReason::Shutdown).await?)
    }
}

/// Tasks that read output; they end with it, or with this.
pub(crate) struct Drains(Vec<JoinHandle<()>>);

impl Drop for Drains {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

fn call(tool: &str) -> String {
    line(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": {}},
    }))
}

fn line(message: &serde_json::Value) -> String {
    format!("{message}\n")
}
