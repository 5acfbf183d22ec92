//! Servers whose environment does not say whose they are.

use std::fs;
use std::process::Command;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::unproven::{as_nobody, give_to_nobody, is_root};
use crate::{DEADLINE, Place, ends, send};

/// Returns what the program of the place prints as JSON, started by a user.
fn answer<T>(place: &Place, words: &[&str], by_user: impl FnOnce(&mut Command) -> T) -> Value {
    let mut command = place.command(&place.program);
    by_user(command.args(words));
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Returns the server of the place out of what `ps` lists.
fn listed(place: &Place, seen: &Value) -> Value {
    let mut servers = seen["servers"].as_array().unwrap().iter();
    let server = servers.find(|it| it["name"] == place.name.as_str());
    server.cloned().unwrap_or_else(|| panic!("{seen:#}"))
}

#[test]
fn a_server_without_a_mark_is_listed_and_ended_with_its_proof() {
    let users: &[bool] = if is_root() { &[false, true] } else { &[false] };
    for &is_nobody in users {
        let mut place = Place::new("unmarked");
        if is_nobody {
            give_to_nobody(&mut place);
        }
        let by_user = |command: &mut Command| {
            if is_nobody {
                as_nobody(command);
            }
        };
        let script = "#!/bin/sh\ntrap '' TERM\nenv -i sleep 1000 &\necho ready\nwhile :; do sleep 0.2; done\n";
        fs::write(place.script(), script).unwrap();
        let (mut host, stdout) = place.start_by(&["--no-mark"], by_user);
        let call = |words: &[&str]| answer(&place, words, by_user);
        let server = listed(&place, &call(&["ps", "--json"]));
        assert!(server["guardian"].is_u64(), "{server:#}");
        if is_nobody {
            assert_eq!(server["cgroup"], false, "{server:#}");
        }
        let processes = server["processes"].as_array().unwrap();
        assert!(processes.len() >= 2, "with its helper: {server:#}");
        for process in processes {
            let environment = fs::read(format!("/proc/{}/environ", process["pid"]));
            let environment = environment.unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            assert!(!environment.contains("MCP_LIFECYCLE_ID"), "{process}");
        }
        let stats = call(&["stats", "--json"]);
        assert_eq!(stats["servers"][0]["how"], "running", "{stats:#}");
        let stopped = call(&["stop", &place.name, "--grace", "100ms", "--json"]);
        assert_eq!(stopped["servers"][0]["gone"], true, "{stopped:#}");
        ends(stdout);
        host.wait().unwrap();
    }
}

#[test]
fn what_neither_mark_nor_cgroup_shows_is_unknown() {
    if !is_root() {
        return;
    }
    let mut place = Place::new("unfound");
    give_to_nobody(&mut place);
    let helped = "#!/bin/sh\nsleep 1000 &\necho ready\nread line\n";
    fs::write(place.script(), helped).unwrap();
    let (mut host, stdout) = place.start_by(&["--no-mark"], as_nobody);
    let call = |words: &[&str]| answer(&place, words, as_nobody);
    let server = listed(&place, &call(&["ps", "--json"]));
    assert_eq!(server["cgroup"], false, "{server:#}");
    let pid = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let mut all = server["processes"].as_array().unwrap().iter();
    let helper = all.find(|it| it["name"] == "sleep").unwrap();
    // A stopped one cannot do the work of the other.
    send(Signal::SIGSTOP, host.id());
    send(Signal::SIGKILL, pid(&server["guardian"]));
    send(Signal::SIGKILL, host.id());
    host.wait().unwrap();
    let end = Instant::now() + DEADLINE;
    for words in [&["reap", "--dry-run", "--json"][..], &["reap", "--json"]] {
        loop {
            let seen = call(words);
            if seen["unknown"].to_string().contains("neither a mark") {
                break;
            }
            assert!(Instant::now() < end, "{seen:#}");
        }
    }
    send(Signal::SIGKILL, pid(&helper["pid"]));
    ends(stdout);
}
