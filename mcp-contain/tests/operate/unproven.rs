//! `stop` where there is no proof: somebody who may not be signalled, and a place that cannot be looked into.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{PROGRAM, Place, ends, send};

const NOBODY: u32 = 65534;
const SOMEBODY: u32 = 65533;

/// Returns whether this test has the rights that it needs, and says so where it has not.
pub(crate) fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: users and mounts cannot be changed here");
    }
    is_root
}

/// Has a place be another user's, who has no cgroups.
pub(crate) fn give_to_nobody(place: &mut Place) {
    let directory = place.directory.path();
    // What was built may lie where nobody else may enter.
    place.program = directory.join("mcp-contain");
    fs::copy(PROGRAM, &place.program).unwrap();
    chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn as_nobody(command: &mut Command) {
    command.uid(NOBODY).gid(NOBODY);
}

fn stopped(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let server = seen["servers"][0].clone();
    assert_eq!(server["gone"], false, "{server:#}");
    server
}

#[test]
fn one_that_may_not_be_signalled_keeps_no_other_and_is_named() {
    if !is_root() {
        return;
    }
    let mut place = Place::new("foreign-child");
    give_to_nobody(&mut place);
    // A program that changes its user, as `sudo` does.
    let changes = place.directory.path().join("changes");
    fs::copy("/usr/bin/setpriv", &changes).unwrap();
    fs::set_permissions(&changes, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = format!(
        "#!/bin/sh\ntrap '' TERM\n'{}' --reuid={SOMEBODY} --regid={SOMEBODY} --clear-groups sh -c 'echo ready; exec sleep 1000' &\n\
         while :; do sleep 0.2; done\n",
        changes.display()
    );
    fs::write(place.script(), script).unwrap();
    let (mut host, stdout) = place.start_by(&[], as_nobody);
    let mut stop = place.command(&place.program);
    as_nobody(stop.args(["stop", &place.name, "--grace", "100ms", "--json"]));
    let server = stopped(&stop.output().unwrap());
    let survivors = server["survivors"].as_array().unwrap();
    assert_eq!(survivors.len(), 1, "{server:#}");
    let pid = u32::try_from(survivors[0]["pid"].as_u64().unwrap()).unwrap();
    let user = fs::metadata(format!("/proc/{pid}")).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(&user),
        SOMEBODY,
        "{server:#}"
    );
    assert!(
        server["killed"].as_u64().unwrap() >= 1,
        "the others: {server:#}"
    );
    send(Signal::SIGKILL, pid);
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn what_cannot_be_looked_into_is_not_taken_for_gone() {
    if !is_root() {
        return;
    }
    let place = Place::new("unseen-cgroup");
    for json in [true, false] {
        let (mut host, stdout) = place.start();
        let seen = place.json(&["ps", "--json"]);
        let servers = seen["servers"].as_array().unwrap();
        let server = servers.iter().find(|it| it["name"] == place.name.as_str());
        if server.unwrap()["cgroup"] == false {
            eprintln!("SKIPPED: there are no cgroups here");
            drop(host.stdin.take());
            return;
        }
        // As in a container without the hierarchy.
        let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"";
        let mut stop = place.command("unshare");
        stop.args([
            "-m",
            "sh",
            "-c",
            hidden,
            PROGRAM,
            "stop",
            &place.name,
            "--grace",
            "0s",
        ]);
        let output = stop.args(json.then_some("--json")).output().unwrap();
        if json {
            let server = stopped(&output);
            assert!(server["unknown"].is_string(), "{server:#}");
        } else {
            assert_eq!(output.status.code(), Some(1));
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("is not known: "), "{text}");
        }
        // Whom it could see, it has ended.
        ends(stdout);
        host.wait().unwrap();
    }
}
