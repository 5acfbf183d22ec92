//! Hosts that are real: the clients of the SDKs, as they come from their registries.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::AliveListener;

use crate::hosts::{DEADLINE, all_were_asked, hellos};
use crate::servers::Server;

/// A script that starts a server, asks it for its tools, and ends it as its SDK does.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// The interpreter and its arguments. What begins with `@` is among the installed tools, what begins with `./` is beside this file.
    words: &'static [&'static str],
}

impl Client {
    pub(crate) const ALL: &[Self] = &[
        Self {
            name: "real-typescript-sdk",
            words: &["node", "./host.mjs", "@npm/node_modules"],
        },
        Self {
            name: "real-python-sdk",
            words: &["@python/bin/python", "./host.py"],
        },
    ];

    /// The rows that a client can speak to.
    pub(crate) const SERVERS: &[&str] = &[
        "plain",
        "ignore-eof",
        "ignore-eof-term",
        "sh-wrapper-deaf",
        "helper",
        "setsid",
        "double-fork",
        "wiped-env",
        "burst",
    ];

    /// Starts this server through the wrapper, and ends it as this client does.
    pub(crate) fn ends(&self, server: &Server) -> Result<(), String> {
        let listener = AliveListener::unix().map_err(|error| error.to_string())?;
        let words = self.words.iter().map(|word| place(word));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let mut client = Command::new(&words[0])
            .args(&words[1..])
            .arg(env!("CARGO_BIN_EXE_mcp-contain"))
            .args(server.command(&listener.address()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", words[0].display()))?;
        let roles = hellos(&listener, server);
        let end = Instant::now() + DEADLINE;
        let status = loop {
            match client.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                None => {
                    let _ = client.kill();
                    let _ = client.wait();
                    return Err("the client does not end".to_owned());
                }
            }
        };
        if !status.success() {
            return Err(format!("the client failed: {status}"));
        }
        let dead = listener.block_on(listener.expect_all_dead(DEADLINE));
        dead.map_err(|error| error.to_string())?;
        let asked = server.asked.iter().chain(server.always_asked);
        all_were_asked(&roles?, asked)
    }
}

fn place(word: &str) -> Result<PathBuf, String> {
    if word.starts_with("./") {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ladders");
        return Ok(PathBuf::from(here).join(word));
    }
    let Some(tool) = word.strip_prefix('@') else {
        return Ok(word.into());
    };
    let home = std::env::var_os("MCP_LIFECYCLE_TEST_TOOLS").map(PathBuf::from);
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-tools");
    let path = home.unwrap_or_else(default).join(tool);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is missing; run tests/setup", path.display())),
    }
}
