//! `stop` of a server with containers whose shim somebody kills: what ends them is still at work, or has gone as well.

use std::fs;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use mcp_lifecycle_conformance::copies;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::unproven::{as_nobody, give_to_nobody, is_root};
use crate::{DEADLINE, PROGRAM, Place, ends, send, started};

/// One of these tests at a time: of a companion whose shim and guardian have gone, nobody can tell whose it was.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that no signal but SIGKILL ends, which asks its engine for a container, and says so. It has a helper that nobody ends when all that hold the server
/// are killed.
const SERVER: &str = r#"#!/bin/sh
trap '' TERM INT HUP
(while :; do sleep 0.2; done) &
perl ask &
while :; do sleep 0.2; done
"#;

const ASK: &str = r#"use IO::Socket::UNIX;
my ($path) = $ENV{DOCKER_HOST} =~ m{^unix://(.*)};
my $engine = IO::Socket::UNIX->new(Peer => $path) or die "no engine: $!";
my $body = '{"Image":"none"}';
my $type = 'Content-Type: application/json';
my $length = length $body;
print $engine "POST /containers/create HTTP/1.1\r\nHost: d\r\n$type\r\nContent-Length: $length\r\n\r\n$body";
$engine->flush;
$| = 1;
print "ready\n";
sleep 1 while 1;
"#;

/// An engine that takes every call, and answers none. Tells of each create.
fn mute_engine(place: &Place) -> (PathBuf, mpsc::Receiver<()>) {
    let socket = place.directory.path().join("engine");
    let listener = UnixListener::bind(&socket).unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for caller in listener.incoming() {
            let (tell, mut caller) = (tell.clone(), caller.unwrap());
            // Each is heard until it hangs up.
            thread::spawn(move || {
                let (mut said, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(len @ 1..) = caller.read(&mut part) {
                    said.extend_from_slice(&part[..len]);
                    if String::from_utf8_lossy(&said).contains("/containers/create") {
                        let _ = tell.send(());
                        said.clear();
                    }
                }
            });
        }
    });
    (socket, told)
}

/// Returns whether it is a companion of this server.
fn is_companion(place: &Place, pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    words.split('\0').nth(1) == Some("--companion") && words.contains(&place.name)
}

/// The companion of this server, which has left whoever started it.
fn companion(place: &Place) -> u32 {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str()?.parse().ok()
    });
    let all: Vec<u32> = numbers.filter(|pid| is_companion(place, *pid)).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

fn guardian(place: &Place) -> u32 {
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let own = servers.iter().find(|it| it["name"] == place.name.as_str());
    let guardian = own.and_then(|it| it["guardian"].as_u64());
    guardian.unwrap().try_into().unwrap()
}

/// Ends the server where no engine is known: the exit code, and what was said of the one server.
fn stop(place: &Place) -> (Option<i32>, Value) {
    let mut stop = place.command(PROGRAM);
    stop.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    stop.args(["stop", &place.name, "--grace", "0s", "--json"]);
    let output = stop.output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["servers"].as_array().unwrap().len(), 1, "{said:#}");
    (output.status.code(), said["servers"][0].clone())
}

/// There is no proof, and it says why.
#[track_caller]
fn is_not_proven((code, said): &(Option<i32>, Value)) -> &str {
    assert_eq!((*code, &said["gone"]), (Some(1), &false.into()), "{said:#}");
    assert_eq!(said["survivors"], serde_json::json!([]), "{said:#}");
    said["unknown"].as_str().unwrap()
}

/// Starts a server that has a minute when it was asked, and waits until its engine has an order that it does not answer.
fn start(place: &Place) -> (Child, BufReader<ChildStdout>) {
    copies::script(&place.script(), SERVER, 0o755).unwrap();
    fs::write(place.directory.path().join("ask"), ASK).unwrap();
    let (engine, created) = mute_engine(place);
    let engine = format!("unix://{}", engine.display());
    let started = place.start_by(&["--containers", "--grace=60s"], |command| {
        command.env("DOCKER_HOST", engine);
    });
    created.recv_timeout(DEADLINE).expect("a create");
    started
}

#[test]
fn a_shim_that_was_dead_at_the_look_leaves_no_proof_while_its_companion_is_at_work() {
    let _alone = alone();
    let place = Place::new("bereaved");
    let (mut shim, stdout) = start(&place);
    let companion = companion(&place);
    shim.kill().unwrap();
    // Not reaped yet, as a host may leave it.
    let stopped = stop(&place);
    send(Signal::SIGKILL, companion);
    let why = is_not_proven(&stopped);
    assert!(why.contains("its containers may live"), "{why}");
    ends(stdout);
    shim.wait().unwrap();
}

#[test]
fn a_shim_that_is_killed_while_it_waits_has_not_heard_that_no_container_is_left() {
    let _alone = alone();
    let place = Place::new("bereft");
    let (mut shim, stdout) = start(&place);
    let companion = companion(&place);
    let stopped = thread::scope(|scope| {
        let stopped = scope.spawn(|| stop(&place));
        // Then the guardian has its proof, and the shim waits.
        ends(stdout);
        shim.kill().unwrap();
        shim.wait().unwrap();
        stopped.join().unwrap()
    });
    send(Signal::SIGKILL, companion);
    let why = is_not_proven(&stopped);
    assert!(why.contains("its containers may live"), "{why}");
}

#[test]
fn containers_whose_companion_was_killed_as_well_are_looked_for() {
    let _alone = alone();
    let place = Place::new("all-killed");
    let (mut shim, stdout) = start(&place);
    let (companion, guardian) = (companion(&place), guardian(&place));
    // None of them sees the end of another one.
    for pid in [companion, guardian, shim.id()] {
        send(Signal::SIGSTOP, pid);
    }
    for pid in [companion, guardian, shim.id()] {
        send(Signal::SIGKILL, pid);
    }
    shim.wait().unwrap();
    let stopped = stop(&place);
    let why = is_not_proven(&stopped);
    assert!(
        why.contains("engine unix://"),
        "the one of its ledger: {why}"
    );
    ends(stdout);
}

#[test]
fn root_has_no_proof_that_another_users_containers_have_gone() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut place = Place::new("anothers");
    give_to_nobody(&mut place);
    let (engine, _) = mute_engine(&place);
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o777)).unwrap();
    let engine = format!("unix://{}", engine.display());
    let (mut shim, stdout) = place.start_by(&["--containers"], |command| {
        as_nobody(command);
        command.env("DOCKER_HOST", engine);
    });
    let stopped = stop(&place);
    let why = is_not_proven(&stopped);
    assert!(why.contains("another user's to look for"), "{why}");
    ends(stdout);
    shim.wait().unwrap();
}

#[test]
fn a_group_has_no_proof_while_its_companion_is_at_work() {
    let _alone = alone();
    let place = Place::new("grouped-engine");
    copies::script(&place.script(), SERVER, 0o755).unwrap();
    fs::write(place.directory.path().join("ask"), ASK).unwrap();
    let (engine, created) = mute_engine(&place);
    let mut command = place.command(PROGRAM);
    command.env("DOCKER_HOST", format!("unix://{}", engine.display()));
    command.args(["--group", "--containers", "--grace=60s"]);
    let (mut host, stdout) = started(command.arg(place.script()));
    created.recv_timeout(DEADLINE).expect("a create");
    let companion = companion(&place);
    let stopped = stop(&place);
    send(Signal::SIGKILL, companion);
    let why = is_not_proven(&stopped);
    assert!(why.contains("its containers may live"), "{why}");
    ends(stdout);
    host.wait().unwrap();
}
