//! `reap --foreign`, on real servers that a host without containment has left.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdout, Output, Stdio};
use std::thread;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::{PROGRAM, Place, ends, send};

/// Ends what a failed test leaves of a group.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        if thread::panicking() {
            let group = Pid::from_raw(i32::try_from(self.0).unwrap());
            let _ = nix::sys::signal::killpg(group, Signal::SIGKILL);
        }
    }
}

/// A server that a host without containment has left: its number, and its output. `None` where orphans are not adopted by the first process.
fn left_by_a_dead_host(place: &Place) -> Option<(Group, u32, BufReader<ChildStdout>)> {
    let (input, writer) = io::pipe().unwrap();
    drop(writer);
    left_with(place, input)
}

/// The same, with this input.
fn left_with(
    place: &Place,
    input: impl Into<Stdio>,
) -> Option<(Group, u32, BufReader<ChildStdout>)> {
    let mut host = place.command("sh");
    let line = format!("{} <&3 & echo $!", place.script().display());
    host.args(["-c", &format!("exec 3<&0; {line}")])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mut host = host.spawn().unwrap();
    let group = Group(host.id());
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    let mut said = String::new();
    for _ in 0..2 {
        stdout.read_line(&mut said).unwrap();
    }
    let mut numbers = said.lines().filter_map(|line| line.parse::<u32>().ok());
    let pid = numbers.next().unwrap();
    host.wait().unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let parent = after.split(' ').nth(2).unwrap();
    if parent == "1" {
        return Some((group, pid, stdout));
    }
    eprintln!("SKIPPED: orphans are adopted by process {parent} here");
    send(Signal::SIGKILL, pid);
    None
}

/// Returns the words of `reap --foreign` on each server, of any age.
#[track_caller]
pub(crate) fn reap(place: &Place, words: &[&str]) -> Vec<String> {
    verdicts(place.call(&[&["reap", "--foreign", "--older", "0s"], words].concat()))
}

#[track_caller]
fn verdicts(output: Output) -> Vec<String> {
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    let verdicts = said.lines().filter(|line| line.contains(" (pid "));
    let verdicts: Vec<_> = verdicts.map(str::to_owned).collect();
    assert_eq!(
        verdicts.is_empty(),
        said.starts_with("Nothing looks like a server"),
        "{said}"
    );
    verdicts
}

pub(crate) const NOTHING: [&str; 0] = [];
const ENDED: &str = ": everything that was seen has ended";

#[test]
fn what_nobody_keeps_account_of_is_ended_only_if_it_passes_every_test() {
    let place = Place::new("foreign");
    let deaf = "#!/bin/sh\ntrap '' TERM\n(sleep 1000; :) &\necho ready\nsleep 1000\n:\n";
    fs::write(place.script(), deaf).unwrap();
    let Some((_group, pid, stdout)) = left_by_a_dead_host(&place) else {
        return;
    };
    let pid = pid.to_string();
    let one = |verdicts: Vec<String>| match &verdicts[..] {
        [one] => one.clone(),
        _ => panic!("{verdicts:#?}"),
    };
    // Those who say nothing else, spare the young.
    let young = one(verdicts(place.call(&["reap", "--foreign", "--yes", &pid])));
    let spared = ": spared, because it is younger than 10m";
    assert!(young.ends_with(spared), "{young}");
    for shown in [&["--dry-run", "--yes", &pid][..], &[&pid]] {
        let shown = one(reap(&place, shown));
        assert!(shown.ends_with(": would be ended"), "{shown}");
    }
    for refused in [&["reap", "--yes"][..], &["reap", "--foreign", "--json"]] {
        let output = place.call(refused);
        assert_eq!(output.status.code(), Some(125), "{refused:?}");
    }
    let ended = one(reap(&place, &["--grace", "100ms", "--yes", &place.name]));
    assert!(ended.ends_with(ENDED), "{ended}");
    assert!(ended.contains(" with 3 processes below it"), "{ended}");
    ends(stdout);
}

#[test]
fn what_is_at_work_is_spared() {
    let place = Place::new("busy");
    fs::write(
        place.script(),
        "#!/bin/sh\necho ready\nwhile :; do :; done\n",
    )
    .unwrap();
    let Some((_group, pid, stdout)) = left_by_a_dead_host(&place) else {
        return;
    };
    let seen = reap(&place, &["--yes", &pid.to_string()]).concat();
    send(Signal::SIGKILL, pid);
    ends(stdout);
    assert!(seen.ends_with(": spared, because it is at work"), "{seen}");
}

#[test]
fn a_server_whose_socket_has_another_end_is_somebodys() {
    let place = Place::new("socket");
    fs::write(place.script(), "#!/bin/sh\necho ready\nsleep 1000\n:\n").unwrap();
    let (host, input) = UnixStream::pair().unwrap();
    let Some((_group, pid, stdout)) = left_with(&place, OwnedFd::from(input)) else {
        return;
    };
    let number = pid.to_string();
    assert_eq!(reap(&place, &[&number]), NOTHING);
    drop(host);
    let left = reap(&place, &[&number, "--yes"]).concat();
    assert!(left.ends_with(ENDED), "{left}");
    ends(stdout);
}

#[test]
fn a_server_whose_user_is_in_another_pid_namespace_is_somebodys() {
    let namespace = ["--pid", "--fork", "--mount-proc"];
    let place = Place::new("hidden");
    let mut probe = place.command("unshare");
    if !probe
        .args(namespace)
        .arg("true")
        .status()
        .is_ok_and(|it| it.success())
    {
        eprintln!("SKIPPED: no PID namespace can be made here");
        return;
    }
    // The first process of the namespace is its parent, and the input is its own.
    let inside =
        "exec 3<&0 </dev/null; mkfifo said; \"$0\" <&3 3<&- >said & exec 3<&-; read ready <said
        \"$1\" reap --foreign --older 0s";
    for is_held in [true, false] {
        let (input, writer) = io::pipe().unwrap();
        let writer = is_held.then_some(writer);
        let mut command = place.command("unshare");
        command.args(namespace).args(["sh", "-c", inside]);
        let _ = fs::remove_file(place.directory.path().join("said"));
        let output = command
            .arg(place.script())
            .arg(PROGRAM)
            .stdin(input)
            .output();
        let seen = verdicts(output.unwrap());
        assert_eq!(seen.len(), usize::from(!is_held), "{seen:#?}");
        drop(writer);
    }
}

#[test]
fn a_server_without_a_mark_below_its_guardian_is_left_to_that() {
    let place = Place::new("unmarked");
    let inner = "trap 'sleep 1; echo done; exit' TERM; sleep 1000 & echo ready; wait";
    let script = format!(
        "#!/bin/sh\n'{PROGRAM}' --no-mark --grace 20s sh -c \"{inner}\" &\nsleep 1000\n:\n"
    );
    fs::write(place.script(), script).unwrap();
    let Some((_group, pid, stdout)) = left_by_a_dead_host(&place) else {
        return;
    };
    let seen = reap(&place, &["--yes", "--grace", "100ms", &pid.to_string()]).concat();
    assert!(seen.ends_with(ENDED), "{seen}");
    // It was asked by its guardian, and had its time.
    let said = ends(stdout);
    assert!(said.contains("done"), "{said}{seen}");
}

#[test]
fn what_listens_is_spared() {
    let place = Place::new("listens");
    let script = "#!/usr/bin/env python3\nimport socket, time\ns = socket.create_server(('127.0.0.1', 0))\nprint('ready', flush=True)\ntime.sleep(1000)\n";
    fs::write(place.script(), script).unwrap();
    let Some((_group, pid, stdout)) = left_by_a_dead_host(&place) else {
        return;
    };
    let number = pid.to_string();
    let seen = reap(&place, &[&number]);
    send(Signal::SIGKILL, pid);
    ends(stdout);
    assert_eq!(seen, NOTHING);
}
