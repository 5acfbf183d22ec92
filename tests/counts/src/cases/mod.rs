//! The hot paths, and rmcp's own where it has such a one.

mod crowd;
mod daemon;
mod ours;
mod plain;
mod theirs;

use std::path::PathBuf;
use std::time::Duration;

use mcp_launcher_local::{Isolation, LocalLauncher};
use rmcp::model::CallToolRequestParams;
use serde_json::json;

use crate::meter::{Meter, Part};

/// A path that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Turns that are counted.
    pub(crate) turns: usize,
    /// The name of the same path of rmcp's.
    pub(crate) peer: Option<&'static str>,
    /// Whether its instructions can be counted: valgrind 3.19 knows no pidfd, without which nothing is launched.
    pub(crate) instructions: bool,
    /// Whether what a launch has depends on the machine, and so what it costs.
    pub(crate) launches: bool,
    pub(crate) part: Part,
    /// Whether the number of reads depends on how quickly the server writes.
    pub(crate) reads_vary: bool,
}

const fn case(name: &'static str, what: &'static str, turns: usize) -> Case {
    Case {
        name,
        what,
        turns,
        peer: None,
        instructions: false,
        launches: false,
        part: Part::Inside,
        reads_vary: false,
    }
}

const fn call(
    name: &'static str,
    what: &'static str,
    turns: usize,
    peer: Option<&'static str>,
) -> Case {
    Case {
        peer,
        instructions: true,
        ..case(name, what, turns)
    }
}

const fn life(name: &'static str, what: &'static str, peer: Option<&'static str>) -> Case {
    Case {
        peer,
        launches: true,
        ..case(name, what, 25)
    }
}

const fn large(case: Case) -> Case {
    Case {
        reads_vary: true,
        ..case
    }
}

const fn whole(case: Case) -> Case {
    Case {
        part: Part::Whole,
        ..case
    }
}

impl Case {
    /// Whether its counts are compared with their record. rmcp's are shown for the ratios alone.
    pub(crate) fn is_compared(&self) -> bool {
        !self.name.starts_with("rmcp-")
    }
}

pub(crate) const ALL: &[Case] = &[
    call(
        "call",
        "a small call, one at a time",
        201,
        Some("rmcp-call"),
    ),
    call("rmcp-call", "the same with rmcp's client", 201, None),
    large(call(
        "large",
        "a call with a result of 1 MiB",
        25,
        Some("rmcp-large"),
    )),
    large(call("rmcp-large", "the same with rmcp's client", 25, None)),
    call(
        "lease",
        "a lease of a running server, and its release",
        201,
        None,
    ),
    case("daemon", "a small call through an executor's daemon", 201),
    life(
        "start-group",
        "spawn to ready, process group",
        Some("rmcp-start"),
    ),
    life(
        "start-guardian",
        "spawn to ready, guardian, cgroup and ledger",
        Some("rmcp-start"),
    ),
    life("rmcp-start", "spawn to ready with rmcp's client", None),
    whole(life(
        "life-group",
        "start, one call, shutdown: process group",
        Some("rmcp-life"),
    )),
    whole(life(
        "life-guardian",
        "start, one call, shutdown: guardian, cgroup and ledger",
        Some("rmcp-life"),
    )),
    whole(life(
        "life-crowd",
        "the same beside 200 processes",
        Some("rmcp-life"),
    )),
    whole(life("rmcp-life", "the same with rmcp's client", None)),
];

/// Names the directory of the programs that are started. What they cost is not counted but for system calls, so
/// they are not optimized: other lanes have built them.
pub(crate) const PROGRAMS: &str = "MCP_COUNTS_PROGRAMS";

fn program(name: &str) -> PathBuf {
    let directory = std::env::var_os(PROGRAMS).expect("tests/run counts says where they are");
    PathBuf::from(directory).join(name)
}

/// The server of all cases.
pub(crate) const SERVER: &str = "mcp-echo";

/// Whether to launch without what valgrind does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Usual,
    Plain,
}

/// A small call, or one for a result of so many bytes.
fn params(bytes: usize) -> CallToolRequestParams {
    let (name, arguments) = match bytes {
        0 => ("echo", json!({"text": "hello"})),
        bytes => ("blob", json!({"bytes": bytes})),
    };
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(name).with_arguments(arguments)
}

const LARGE: usize = 1 << 20;

/// Takes the path so many times, and returns what the launcher says that it holds a server with.
pub(crate) async fn take(name: &str, how: How, turns: usize, meter: &mut Meter) -> String {
    let guardian = || LocalLauncher::new();
    let group = || {
        LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build()
    };
    match name {
        "call" => ours::calls(&plain::launcher(how), 0, turns, meter).await,
        "large" => ours::calls(&plain::launcher(how), LARGE, turns, meter).await,
        "rmcp-call" => theirs::calls(0, turns, meter).await,
        "rmcp-large" => theirs::calls(LARGE, turns, meter).await,
        "lease" => ours::leases(&plain::launcher(how), turns, meter).await,
        "daemon" => daemon::calls(turns, meter).await,
        "start-group" => ours::starts(group(), turns, meter).await,
        "start-guardian" => ours::starts(guardian(), turns, meter).await,
        "rmcp-start" => theirs::starts(turns, meter).await,
        "life-group" => ours::lives(group(), turns, meter).await,
        "life-guardian" => ours::lives(guardian(), turns, meter).await,
        "life-crowd" => {
            let _crowd = crowd::gather(200);
            ours::lives(guardian(), turns, meter).await
        }
        "rmcp-life" => theirs::lives(turns, meter).await,
        _ => panic!("there is no case `{name}`"),
    }
}

/// Turns that are not counted come first: tables grow, and what is found out once is found out.
const WARM_UP: usize = 8;

/// Waits until what other threads still do for `path` is over: it would be counted with what comes next.
async fn settled<T>(path: impl Future<Output = T>) -> T {
    let done = path.await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    done
}
