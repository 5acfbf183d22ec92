//! The one that `stop` means: by its name, by a pid, or by its ID, in this order.

use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::{DEADLINE, PROGRAM, Place, ends, started};

fn id_of(place: &Place, name: &str) -> String {
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let mut own = servers.iter().filter(|it| it["name"] == name);
    let id = own.next().unwrap_or_else(|| panic!("{seen:#}"))["id"].as_str();
    assert!(own.next().is_none(), "{seen:#}");
    id.unwrap().to_owned()
}

fn says(place: &Place, words: &[&str]) -> String {
    let refused = place.call(words);
    assert_eq!(refused.status.code(), Some(1), "{words:?}");
    String::from_utf8(refused.stderr).unwrap()
}

fn stopped(place: &Place, wanted: &str) -> Value {
    let said = place.json(&["stop", wanted, "--grace", "0s", "--json"]);
    assert_eq!(said["servers"].as_array().unwrap().len(), 1, "{said:#}");
    assert_eq!(said["servers"][0]["gone"], true, "{said:#}");
    said["servers"][0]["id"].clone()
}

#[test]
fn a_name_comes_before_the_beginning_of_an_id() {
    let place = Place::new("meant");
    let (mut first, first_out) = place.start();
    let first_id = id_of(&place, &place.name);
    // Whoever chooses a name can choose that one.
    let (mut second, second_out) = place.start_with(&["--name", &first_id[..8]]);
    let second_id = id_of(&place, &first_id[..8]);
    assert_eq!(stopped(&place, &first_id[..8]), second_id);
    ends(second_out);
    second.wait().unwrap();
    // Nobody has that name any more.
    assert_eq!(stopped(&place, &first_id[..8]), first_id);
    ends(first_out);
    first.wait().unwrap();
}

#[test]
fn an_id_is_meant_by_as_many_digits_as_are_shown() {
    let place = Place::new("digits");
    let (mut host, stdout) = place.start();
    let id = id_of(&place, &place.name);
    for short in [&id[..4], &id[..7], ""] {
        let why = says(&place, &["stop", short]);
        assert!(why.contains("no server is called"), "{why}");
    }
    let pid = place.json(&["ps", "--json"])["servers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["id"] == id.as_str())
        .unwrap()["leader"]
        .to_string();
    assert_eq!(stopped(&place, &pid), id.as_str());
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn a_group_is_held_and_meant_by_its_name() {
    let place = Place::new("grouped");
    let name = format!("times-{}", std::process::id());
    let mut command = place.command(PROGRAM);
    command.args(["--group", "--no-mark", "--name", &name]);
    let (mut host, stdout) = started(command.arg(place.script()));
    let table = String::from_utf8(place.call(&["ps"]).stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with(&name));
    let row = row.unwrap_or_else(|| panic!("{table}"));
    assert!(row.trim_end().ends_with("process group"), "{table}");
    assert!(row.contains(&std::process::id().to_string()), "{table}");
    assert!(!table.contains("stays"), "{table}");
    let id = id_of(&place, &name);
    assert_eq!(stopped(&place, &name), id);
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn a_server_is_meant_by_the_pid_that_its_host_knows() {
    for options in [&[][..], &["--group"], &["--restart"]] {
        let place = Place::new("held");
        let mut command = place.command(PROGRAM);
        let (mut host, stdout) = started(command.args(options).arg(place.script()));
        let id = id_of(&place, &place.name);
        let end = Instant::now() + DEADLINE;
        // The program runs a moment before the shim.
        let is_it = |server: &&Value| server["id"] == id.as_str();
        let is_wrapped = |seen: Value| {
            let server = seen["servers"].as_array().unwrap().iter().find(is_it);
            server.unwrap()["host"]["is_wrapper"] == true
        };
        while !is_wrapped(place.json(&["ps", "--json"])) {
            assert!(Instant::now() < end, "{options:?}");
            thread::yield_now();
        }
        assert_eq!(stopped(&place, &host.id().to_string()), id, "{options:?}");
        drop(host.stdin.take());
        ends(stdout);
        host.wait().unwrap();
    }
}
