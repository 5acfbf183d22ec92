//! A call through the executor's daemon.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mcp_launcher_executor::ExecutorLauncher;
use mcp_lifecycle_core::launch::ServerLauncher;

use super::{ours, program};
use crate::meter::Meter;

/// The program, as it is called beside this one.
pub(crate) const DAEMON: &str = "mcp-executor";

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn calls(turns: usize, meter: &mut Meter) -> String {
    let mut child = Command::new(program(DAEMON))
        .args(["--listen", "ws://127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let _daemon = Daemon(child);
    let mut lines = BufReader::new(stdout).lines();
    let url = lines.find_map(|line| line.ok().filter(|line| line.starts_with("ws")));
    let url = url.unwrap();
    let executor = ExecutorLauncher::connect(ExecutorLauncher::websocket(&url))
        .await
        .unwrap();
    let launcher: Arc<dyn ServerLauncher> = Arc::new(executor);
    ours::calls(&launcher, 0, turns, meter).await;
    String::new()
}
