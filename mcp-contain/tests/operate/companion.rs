//! `stop` of a server whose shim waits for a process that ends containers.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;

use mcp_tree::Wrapper;
use nix::sys::signal::Signal;

use crate::bereaved::alone;
use crate::{DEADLINE, Place, becomes_the_shim, send};

/// Says which server the process of [`becomes_a_shim`] starts.
const SERVER: &str = "OPERATE_SERVER";

#[test]
#[ignore = "the process that another test starts"]
fn becomes_a_shim() {
    let program = std::env::var_os(SERVER).expect("started by the other test");
    let mut wrapper = Wrapper::new(program, []);
    // It is no log here.
    let companion = io::stderr().as_fd().try_clone_to_owned().unwrap();
    wrapper.companion = Some(Arc::new(companion));
    panic!("{}", wrapper.exec());
}

/// Starts a server of which this process is the companion.
fn start(place: &Place) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut command = place.command(std::env::current_exe().unwrap());
    command
        .args(["--exact", "companion::becomes_a_shim"])
        .args(["--ignored", "--nocapture", "--test-threads=1"])
        .env(SERVER, place.script())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // What runs tests says something, too.
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    becomes_the_shim(&child);
    (child, ours)
}

/// Waits until the guardian asks.
fn asked(companion: &mut UnixStream) {
    let mut word = [0];
    companion.read_exact(&mut word).unwrap();
    assert_eq!(word, [Wrapper::SERVER_GONE]);
}

/// How the only server of a place ended, by its record.
fn record(place: &Place) -> serde_json::Value {
    place.json(&["stats", "--json"])["servers"][0].clone()
}

/// What the shim says, and its exit code, when the guardian has asked and got this answer.
fn refuses(name: &str, answer: &[u8]) {
    let place = Place::new(name);
    let (mut shim, mut companion) = start(&place);
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let own = servers.iter().find(|it| it["name"] == place.name.as_str());
    let leader = own.and_then(|it| it["leader"].as_u64());
    send(Signal::SIGKILL, leader.unwrap().try_into().unwrap());
    asked(&mut companion);
    companion.write_all(answer).unwrap();
    companion.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    // The shim's standard error is the same socket here.
    companion.read_to_string(&mut said).unwrap();
    assert_eq!(shim.wait().unwrap().code(), Some(125), "{said}");
    assert!(said.contains("some may live"), "{said}");
    let record = record(&place);
    let [how, evidence] = [&record["how"], &record["evidence"]];
    assert_eq!((how, evidence[0].as_str()), (&"unproven".into(), None));
}

#[test]
fn a_shim_has_no_proof_when_its_companion_says_something_else() {
    refuses("odd-companion", b"?");
}

#[test]
fn a_shim_has_no_proof_when_its_companion_says_nothing() {
    refuses("mute-companion", b"");
}

fn stop(place: &Place) -> (Option<i32>, serde_json::Value) {
    // Nobody has an engine there.
    let mut stop = place.command(crate::PROGRAM);
    stop.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    stop.args(["stop", &place.name, "--grace", "0s", "--json"]);
    let output = stop.output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), said["servers"][0].clone())
}

#[test]
fn there_is_no_proof_while_a_shim_waits_for_who_ends_containers() {
    let _alone = alone();
    let place = Place::new("companion");
    let (mut shim, mut companion) = start(&place);
    let (code, said) = stop(&place);
    assert_eq!((code, &said["gone"]), (Some(1), &false.into()), "{said:#}");
    let why = said["unknown"].as_str().unwrap();
    assert!(why.starts_with("its containers may live"), "{why}");
    asked(&mut companion);
    companion.write_all(&[Wrapper::COMPANION_DONE]).unwrap();
    assert_ne!(shim.wait().unwrap().code(), Some(125), "it has the proof");
}

#[test]
fn there_is_a_proof_once_they_have_ended() {
    let _alone = alone();
    let place = Place::new("companion-done");
    let (mut shim, mut companion) = start(&place);
    let answers = std::thread::spawn(move || {
        asked(&mut companion);
        companion.write_all(&[Wrapper::COMPANION_DONE]).unwrap();
    });
    let (code, said) = stop(&place);
    assert_eq!((code, &said["gone"]), (Some(0), &true.into()), "{said:#}");
    answers.join().unwrap();
    shim.wait().unwrap();
    let evidence = record(&place)["evidence"].to_string();
    assert!(evidence.contains("containers_absent"), "{evidence}");
}
