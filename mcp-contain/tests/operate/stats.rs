//! `stats`, on real servers, and on rings that are full, foreign or hostile.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{Place, ends, send};

fn ring(place: &Place) -> PathBuf {
    place.directory.path().join("state/ended.ring")
}

/// The only server in there.
#[track_caller]
fn only(place: &Place) -> Value {
    let seen = place.json(&["stats", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{seen:#}");
    servers[0].clone()
}

#[test]
fn it_is_known_of_each_server_how_it_was_ended() {
    // It ends at the end of its input; when it is asked; never. The last has a helper.
    let polite = "#!/bin/sh\necho ready\nread line; exit 3\n";
    let asked = "#!/bin/sh\ntrap 'exit 4' TERM\necho ready\nwhile :; do sleep 0.1; done\n";
    let deaf = "#!/bin/sh\ntrap '' TERM\necho ready\n(while :; do sleep 0.1; done) & while :; do sleep 0.1; done\n";
    for (script, how, host_gone) in [
        (polite, "itself", false),
        (asked, "asked", false),
        (deaf, "killed", false),
        (asked, "asked", true),
        (deaf, "killed", true),
    ] {
        let place = Place::new("ended");
        fs::write(place.script(), script).unwrap();
        let (mut host, stdout) = place.start_with(&["--grace", "200ms"]);
        assert_eq!(only(&place)["how"], "running");
        if host_gone {
            send(Signal::SIGKILL, host.id());
        }
        drop(host.stdin.take());
        ends(stdout);
        host.wait().unwrap();
        // The guardian of a host that is gone has a moment to write it down.
        let end = std::time::Instant::now() + crate::DEADLINE;
        let mut seen = only(&place);
        while seen["how"] == "running" || seen["how"] == "unknown" {
            assert!(std::time::Instant::now() < end, "{seen:#}");
            seen = only(&place);
        }
        assert_eq!(
            (&seen["how"], &seen["host_gone"]),
            (&how.into(), &host_gone.into()),
            "{seen:#}"
        );
        assert_eq!(
            seen["name"],
            place.name[..place.name.len().min(40)],
            "{seen:#}"
        );
        assert!(
            seen["ended"].as_f64() >= seen["started"].as_f64(),
            "{seen:#}"
        );
        match how {
            "itself" => assert_eq!((&seen["code"], &seen["swept"]), (&3.into(), &0.into())),
            "asked" => assert_eq!(seen["code"], 4),
            _ => {
                assert_eq!(seen["signal"], 9);
                assert!(seen["swept"].as_u64().unwrap() >= 1, "{seen:#}");
                // The shim's grace, which began a moment before the guardian heard of it.
                assert!(seen["seconds"].as_f64().unwrap() >= 0.1, "{seen:#}");
            }
        }
        let text = String::from_utf8(place.call(&["stats"]).stdout).unwrap();
        let first = if how == "itself" {
            "0 of 1 server "
        } else {
            "1 of 1 server "
        };
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("NAME") && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn what_was_not_started_is_no_server_and_whose_guardian_was_killed_is_unknown() {
    let place = Place::new("neither");
    fs::write(place.script(), "#!/no/such/interpreter\n").unwrap();
    let script = place.script();
    assert!(!place.call(&[script.to_str().unwrap()]).status.success());
    let seen = place.json(&["stats", "--json"]);
    assert_eq!(seen["servers"].as_array().unwrap().len(), 0, "{seen:#}");
    fs::write(&script, "#!/bin/sh\necho ready\nread line\n").unwrap();
    let (mut host, stdout) = place.start();
    let seen = place.json(&["ps", "--json"]);
    // Those of others are seen as well.
    let mut servers = seen["servers"].as_array().unwrap().iter();
    let server = servers.find(|server| server["name"] == place.name.as_str());
    let guardian = server.unwrap()["guardian"].as_u64().unwrap();
    send(Signal::SIGKILL, u32::try_from(guardian).unwrap());
    ends(stdout);
    host.wait().unwrap();
    assert_eq!(only(&place)["how"], "unknown");
}

#[test]
fn a_record_that_a_later_server_has_by_now_is_left_alone() {
    let place = Place::new("overtaken");
    fs::write(place.script(), "#!/bin/sh\necho ready\nread line\n").unwrap();
    let (mut host, stdout) = place.start();
    // As if the ring had gone round.
    let file = fs::File::options().write(true).open(ring(&place)).unwrap();
    file.write_all_at(&7_u64.to_le_bytes(), 128 + 8).unwrap();
    drop(host.stdin.take());
    ends(stdout);
    host.wait().unwrap();
    let seen = only(&place);
    assert_eq!(
        (&seen["id"], &seen["how"]),
        (&"0000000000000007".into(), &"unknown".into())
    );
}

#[test]
fn whatever_the_ring_is_servers_start_and_stats_answers() {
    let place = Place::new("hostile");
    fs::write(place.script(), "#!/bin/sh\necho ready\nread line\n").unwrap();
    let serve = || {
        let (mut host, stdout) = place.start();
        drop(host.stdin.take());
        ends(stdout);
        assert!(host.wait().unwrap().code().is_some());
        place.json(&["stats", "--json"])
    };
    serve();
    let ring = ring(&place);
    fs::remove_file(&ring).unwrap();
    fs::create_dir(&ring).unwrap();
    let seen = serve();
    assert_eq!(seen["unknown"].as_array().unwrap().len(), 1, "{seen:#}");
    fs::remove_dir(&ring).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &ring).unwrap();
    let seen = serve();
    assert_eq!(seen["unknown"].as_array().unwrap().len(), 1, "{seen:#}");
    fs::remove_file(&ring).unwrap();
    serve();
    let mut text = fs::File::options().write(true).open(&ring).unwrap();
    // A header that says no number, and a record that is one by its first bytes only.
    let noise: Vec<u8> = (0..4096_u32).map(|at| (at * 31 % 251) as u8).collect();
    text.write_all(&noise).unwrap();
    text.write_all(b"mcp-end1").unwrap();
    text.write_all(&[0xff; 120]).unwrap();
    let seen = serve();
    assert_eq!(seen["itself"], 1, "{seen:#}");
    let text = place.call(&["stats"]);
    assert!(text.status.success());
    assert!(!text.stdout.contains(&0x1b));
}

#[test]
fn a_full_disk_costs_the_record_and_no_server() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: nothing can be mounted here");
        return;
    }
    let place = Place::new("full");
    fs::write(place.script(), "#!/bin/sh\necho ready\nread line; exit 6\n").unwrap();
    let state = place.directory.path().join("state");
    fs::create_dir(&state).unwrap();
    // Room for a ledger, and the rest is taken.
    let full = "mount -t tmpfs -o size=8k,mode=700 none state && head -c 4096 /dev/zero >state/full && { echo | exec \"$0\" \"$@\"; }";
    let script = place.script();
    let words = [
        "-m",
        "sh",
        "-c",
        full,
        crate::PROGRAM,
        script.to_str().unwrap(),
    ];
    let output = place.command("unshare").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
