//! `codex app-server` as a host of MCP servers: no login and no model is needed.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::{codex, within};

pub(crate) struct AppServer {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: i64,
}

impl AppServer {
    /// Starts one whose MCP server `every` runs on the executor at `url`.
    pub(crate) async fn start(home: &Path, url: &str, command: &str, args: &[&str]) -> Self {
        let environments =
            format!("default = \"box\"\n[[environments]]\nid = \"box\"\nurl = \"{url}\"\n");
        std::fs::write(home.join("environments.toml"), environments).unwrap();
        let config = format!(
            "[mcp_servers.every]\ncommand = {command:?}\nargs = {args:?}\n\
             environment_id = \"box\"\ncwd = \"/tmp\"\n"
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        let mut child = Command::new(codex())
            .arg("app-server")
            .env("CODEX_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut app = Self {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            next: 0,
        };
        let info = json!({"clientInfo": {"name": "test", "title": "test", "version": "1"}});
        app.request("initialize", info).await.unwrap();
        app.write(&json!({"method": "initialized"})).await;
        app
    }

    /// A new thread, with servers of its own; its name.
    pub(crate) async fn thread(&mut self, cwd: &Path) -> String {
        let started = self.request("thread/start", json!({"cwd": cwd})).await;
        let thread = &started.unwrap()["thread"]["id"];
        thread.as_str().unwrap().to_owned()
    }

    /// The names of the server's tools.
    pub(crate) async fn tools(&mut self, thread: &str) -> Vec<String> {
        let status = self.request("mcpServerStatus/list", json!({"threadId": thread}));
        let status = status.await.unwrap();
        let tools = status["data"][0]["tools"].as_object().cloned();
        tools
            .unwrap_or_default()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    /// The text that the server's tool `echo` gives back.
    pub(crate) async fn echo(&mut self, thread: &str, text: &str) -> Result<String, Value> {
        let call = json!({"threadId": thread, "server": "every", "tool": "echo",
                          "arguments": {"text": text}});
        let result = self.request("mcpServer/tool/call", call).await?;
        Ok(result["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"id": id, "method": method, "params": params}))
            .await;
        loop {
            let line = within(self.lines.next_line()).await.unwrap();
            let message: Value = serde_json::from_str(&line.expect("not its end")).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    async fn write(&mut self, message: &Value) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Ends it as a user does.
    pub(crate) async fn leave(self) {
        let Self {
            mut child, stdin, ..
        } = self;
        drop(stdin);
        if tokio::time::timeout(std::time::Duration::from_secs(5), child.wait())
            .await
            .is_err()
        {
            child.kill().await.unwrap();
        }
    }
}
