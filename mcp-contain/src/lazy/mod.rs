//! A server that runs only while it is used. `docs/contain-lazy.md` has the design.
//!
//! - [`message`]: what a line is
//! - [`reading`]: what it means here
//! - [`decision`]: what follows from it
//! - [`cache`]: what the server has answered before
//! - [`edge`]: the descriptors, the signals and the server

mod cache;
mod decision;
mod edge;
mod message;
mod reading;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum as _;

use crate::containers::may_accompany;
use crate::failure::Failure;
use crate::run::{self, Options};
use cache::{Cache, key};
use decision::words::Policy;
use edge::{Edge, Shim};

/// How long a server that keeps nothing between requests stays unused.
const IDLE: Duration = Duration::from_secs(600);

/// Relays between the host and servers that are started when they are needed.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let host = mcp_launcher_local::hold_parent();
    let policy = Policy {
        lazy: options.lazy,
        restart: options.restart,
        idle: Some(options.idle.unwrap_or(IDLE)),
        idle_legacy: options.idle,
        grace: options.grace,
    };
    // Once for all its servers: what it is belongs to what the cache is found by.
    let path = options.path.and_then(run::path);
    let cache = open_cache(options, path.as_deref());
    let shim = Shim {
        words: words(options),
        may_be_accompanied: may_accompany(options.containers, &options.command),
        path,
    };
    let edge = Edge::new(policy, cache, shim, host);
    let code = edge.and_then(Edge::run);
    code.map_err(|error| Failure::wrapper(format_args!("the relay failed: {error}")))
}

/// The cache of this command in this directory and environment, with this `PATH` if it is another.
fn open_cache(options: &Options, path: Option<&OsStr>) -> Cache {
    let directory = env::current_dir();
    let mut env: BTreeMap<_, _> = env::vars_os().collect();
    if let Some(path) = path {
        env.insert("PATH".into(), path.into());
    }
    let env = env
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let command = options.command.iter().map(OsString::as_os_str);
    let known = directory.as_deref().unwrap_or(Path::new(""));
    let specification = key::specification(command, known, env);
    let home = env::var_os("HOME");
    Cache::open(
        home.as_deref()
            .map(Path::new)
            .filter(|_| options.lazy && directory.is_ok()),
        &specification,
    )
}

/// An option with its value in one word: the value may begin as an option does.
fn assigned(option: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}

/// The command line that starts a server, held as the user wants it.
fn words(options: &Options) -> Vec<OsString> {
    let grace = humantime::format_duration(options.grace).to_string();
    let mut words: Vec<OsString> = vec![
        "run".into(),
        "--sigkill-as-code".into(),
        "--grace".into(),
        grace.into(),
    ];
    if let Some(name) = &options.name {
        words.push(assigned("--name=", name));
    }
    if let Some(level) = options.require.and_then(|level| level.to_possible_value()) {
        words.extend(["--require".into(), level.get_name().into()]);
    }
    if let Some(memory) = options.memory {
        words.extend(["--memory".into(), memory.to_string().into()]);
    }
    if let Some(log) = &options.log {
        words.push(assigned("--log=", log.as_os_str()));
    }
    if let Some(when) = options.containers.to_possible_value() {
        words.push(assigned("--containers=", when.get_name().as_ref()));
    }
    for pattern in &options.keep {
        words.push(assigned("--keep=", pattern));
    }
    if options.no_mark {
        words.push("--no-mark".into());
    }
    words.push("--".into());
    words.extend(options.command.iter().cloned());
    words
}
