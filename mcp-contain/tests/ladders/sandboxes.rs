//! The wrapper and a sandbox, each in front of the other: `tests/run sandboxes` installs them.

use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::hosts::{DEADLINE, Host, WRAPPER};
use crate::servers;

/// The columns that differ behind a sandbox: a polite host, one that kills its child, one that is
/// killed itself.
const HOSTS: [&str; 3] = ["rmcp", "wrapper-killed", "host-killed"];

/// The trials of each sandbox in `MCP_TEST_SANDBOXES`: lines of a name and, after a `=`, the command
/// that is put before another one. A name that ends with `?` has no network, not even to the
/// observer: then the server only has to be contained.
pub(crate) fn trials() -> Vec<Trial> {
    let lines: &'static str = std::env::var("MCP_TEST_SANDBOXES")
        .unwrap_or_default()
        .leak();
    let mut trials = Vec::new();
    for (name, words) in lines.lines().filter_map(|line| line.split_once('=')) {
        let words: Vec<_> = words.split_whitespace().collect();
        let behind = [&[WRAPPER], &words[..]].concat();
        let before = [&words[..], &[WRAPPER]].concat();
        let required = [&before[..], &["--require", "guardian"]].concat();
        let contained = format!("sandbox::{name}::around::is_contained");
        trials.push(Trial::test(contained, move || is_contained(&required)));
        if !name.ends_with('?') {
            trials.extend(cells(name, "behind", &behind));
            trials.extend(cells(name, "around", &before));
        }
    }
    trials
}

fn cells(name: &str, order: &str, words: &[&'static str]) -> Vec<Trial> {
    let hosts = Host::ALL.iter().filter(|host| HOSTS.contains(&host.name));
    let cells = hosts.flat_map(|host| servers::ALL.iter().map(move |server| (host, server)));
    let trial = |(host, server): (&'static Host, &'static servers::Server)| {
        let words = words.to_vec();
        let cell = format!("sandbox::{name}::{order}::{}::{}", host.name, server.name);
        Trial::test(cell, move || {
            let ended = host.ends_through(&words, server, DEADLINE);
            ended.map(drop).map_err(Into::into)
        })
    };
    cells.map(trial).collect()
}

/// The sandbox lets the wrapper start a server that is held by a guardian.
fn is_contained(words: &[&str]) -> Result<(), Failed> {
    let said = Command::new(words[0])
        .args(&words[1..])
        .args(["echo", "served"])
        .output()?;
    match said.stdout == *b"served\n" && said.status.success() {
        true => Ok(()),
        false => Err(format!("{said:?}").into()),
    }
}
