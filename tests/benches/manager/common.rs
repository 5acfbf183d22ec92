//! Code that the parts of the benchmark share.

use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};

pub(crate) const ECHO: &str = env!("CARGO_BIN_EXE_mcp-echo");
pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

/// The command line.
pub(crate) struct Options {
    parts: Vec<String>,
    pub(crate) scale: usize,
}

impl Options {
    pub(crate) fn from_args() -> Self {
        let mut options = Self {
            parts: Vec::new(),
            scale: 1,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--scale" => options.scale = args.next().and_then(|n| n.parse().ok()).unwrap_or(1),
                // What cargo itself passes to a benchmark.
                "--bench" => {}
                part => options.parts.push(part.to_owned()),
            }
        }
        options
    }

    pub(crate) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }

    pub(crate) fn scaled(&self, number: usize) -> usize {
        (number / self.scale).max(1)
    }
}

pub(crate) fn launcher() -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::new())
}

/// A server whose `VERSION` makes it another one.
pub(crate) fn echo(launcher: &Arc<dyn ServerLauncher>, name: &str, version: usize) -> ServerConfig {
    let spec = ServerSpec::builder(name, ECHO).env("VERSION", version.to_string());
    ServerConfig::new(
        Arc::clone(launcher),
        spec.build().expect("a valid specification"),
    )
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    pages * 4096
}
