//! A server that runs only while it is used. `docs/contain-reference.md` states its guarantees.
//!
//! - [`decision`]: one state machine, pure: events in, actions out
//! - [`mod@line`]: parses a line into an event
//! - [`cache`]: earlier answers of the server
//! - [`edge`]: the descriptors, the signals and the server: carries out the actions
//!
//! ```text
//!            a request that the cache        the repeated handshake
//!            cannot answer                   is answered
//!   Asleep ─────────────────────▶ Starting ──────────────────▶ Running
//!    ▲ ▲ ▲      (the first server: Running at once)           │  │
//!    │ │ │                          │ refused, or too late     │  │ unused for the
//!    │ │ │ proven end               ▼                          │  │ idle timeout
//!    │ │ └────────────────────── Failing                       │  ▼
//!    │ └───────────────────────────────────────────────────────│─ Ending
//!    │                                                         │
//!    └──── pause over ──── Waiting ◀── ended by itself, again ─┘
//! ```
//!
//! A restart is an end as that of an unused server, with a successor at once. A server without a
//! proven end has no successor: the relay exits.

mod cache;
mod decision;
mod edge;
mod line;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::containers::may_accompany;
use crate::failure::Failure;
use crate::options::Options;
use cache::{Cache, key};
use decision::events::Policy;
pub(crate) use edge::signals;
use edge::{Edge, Shim};

const IDLE: Duration = Duration::from_secs(600);

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let host = mcp_guardian::sys::hold_parent();
    let policy = Policy {
        lazy: options.lazy,
        restart: options.restart,
        idle: Some(options.idle.unwrap_or(IDLE)),
        idle_legacy: options.idle,
        grace: options.grace,
    };
    // Determined once: it is part of the cache key.
    let path = options.path.and_then(crate::options::path);
    let cache = open_cache(options, path.as_deref());
    let shim = Shim {
        words: words(),
        may_be_accompanied: may_accompany(options.containers, &options.command),
        path,
    };
    let edge = Edge::new(policy, cache, shim, host, &options.watch);
    let code = edge.and_then(Edge::run);
    code.map_err(|error| Failure::wrapper(format_args!("the relay failed: {error}")))
}

fn open_cache(options: &Options, path: Option<&OsStr>) -> Cache {
    let directory = env::current_dir().ok().filter(|_| options.lazy);
    let mut env: BTreeMap<_, _> = env::vars_os().collect();
    env.extend(path.map(|path| ("PATH".into(), path.into())));
    let home = env::var_os("HOME").filter(|_| directory.is_some());
    let directory = directory.unwrap_or_default();
    let specification = key::specification(&options.command, &directory, &env);
    Cache::open(home.as_deref().map(Path::new), specification)
}

fn words() -> Vec<OsString> {
    let own = env::args_os().skip(1);
    let own = own.skip_while(|word| word == "run");
    let shim = ["run", "--sigkill-as-code"].map(OsString::from);
    shim.into_iter().chain(own).collect()
}
