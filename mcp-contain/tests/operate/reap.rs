//! `reap`, of servers whose hosts are known.

use std::fs;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{DEADLINE, Place, ends, send};

#[test]
fn a_living_hosts_server_is_no_orphan() {
    let place = Place::new("spared");
    let (mut host, stdout) = place.start();
    let shown = place.json(&["reap", "--dry-run", "--json"]);
    assert_eq!(shown["orphans"].as_array().unwrap().len(), 0, "{shown:#}");
    let reaped = place.json(&["reap", "--json"]);
    assert_eq!(
        (&reaped["schema"], &reaped["ended"]),
        (&"mcp-contain/reap/1".into(), &Value::Array(Vec::new()))
    );
    let seen = place.json(&["ps", "--json"]).to_string();
    assert!(seen.contains(&place.name), "it runs");
    // Processes that nobody has to decide on are named only if that is asked for.
    let said = String::from_utf8(place.call(&["reap"]).stdout).unwrap();
    assert!(!said.contains(&place.name[..15]), "{said}");
    let said = String::from_utf8(place.call(&["reap", "--verbose"]).stdout).unwrap();
    assert!(
        said.contains(&format!("spared: process {}", leader(&place))),
        "{said}"
    );
    drop(host.stdin.take());
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn what_a_wrapper_left_that_was_killed_with_its_guardian_is_shown_and_ended() {
    let place = Place::new("orphan");
    // The server's own process ends with its guardian; what it has started does not.
    let helped = "#!/bin/sh\nsleep 60 &\necho ready\nread line\n";
    fs::write(place.script(), helped).unwrap();
    let (mut host, stdout) = place.start();
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let server = servers
        .iter()
        .find(|server| server["name"] == place.name.as_str())
        .unwrap();
    let guardian = u32::try_from(server["guardian"].as_u64().unwrap()).unwrap();
    // A stopped one cannot do the work of the other.
    send(Signal::SIGSTOP, host.id());
    send(Signal::SIGKILL, guardian);
    send(Signal::SIGKILL, host.id());
    host.wait().unwrap();
    // The guardian is not ours to wait for; until it has gone, nobody is proven dead.
    let end = Instant::now() + DEADLINE;
    let shown = loop {
        let shown = place.json(&["reap", "--dry-run", "--json"]);
        if shown["orphans"][0]["id"] == server["id"] {
            break shown;
        }
        assert!(Instant::now() < end, "{shown:#}");
    };
    assert_eq!(shown["orphans"][0]["host"]["state"], "dead");
    let doctor = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    let first = doctor.lines().next().unwrap();
    // Other tests may leave something at the same time.
    assert!(
        first.contains("left behind") && first.contains("`mcp-contain reap`"),
        "{doctor}"
    );
    let listed = String::from_utf8(place.call(&["ps"]).stdout).unwrap();
    let row = format!("gone ({})", host.id());
    assert!(
        listed.contains(&row) && listed.contains("was left behind: `mcp-contain reap` ends it"),
        "{listed}"
    );
    let reaped = place.json(&["reap", "--json"]);
    assert!(
        !reaped["ended"].as_array().unwrap().is_empty(),
        "{reaped:#}"
    );
    ends(stdout);
}

/// The server's own process.
fn leader(place: &Place) -> u64 {
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let own = servers.iter().find(|it| it["name"] == place.name.as_str());
    own.unwrap()["leader"].as_u64().unwrap()
}
