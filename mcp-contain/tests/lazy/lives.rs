//! When a server is there, and how the relay ends.

use mcp_lifecycle_conformance::copies;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::session::Place;

#[test]
fn an_unused_server_is_ended_and_comes_back() {
    let mut place = Place::new();
    let mut session = place.session(&["--lazy", "--idle", "300ms"]);
    session.open();
    place.alive.ready(1);
    for _ in 0..3 {
        place.alive.nobody_is_left();
        session.work();
        place.alive.ready(1);
    }
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_server_with_a_request_in_flight_is_not_ended() {
    let mut place = Place::new();
    let mut session = place.session(&["--lazy", "--idle", "100ms"]);
    session.open();
    place.alive.ready(1);
    session.ask("tools/call", json!({"name": "silent"}));
    // It may be another server by now, which says that it has started as well.
    let heard = place.alive.file("heard");
    let heard = || std::fs::read_to_string(&heard);
    while !heard().is_ok_and(|text| text.contains("silent")) {
        place.alive.ready(1);
    }
    // As long as it takes to end one that has nothing to do, and has had that for less time.
    let mut idle = Place::new();
    let mut other = idle.session(&["--lazy", "--idle", "100ms"]);
    other.open();
    idle.alive.ready(1);
    idle.alive.nobody_is_left();
    assert!(place.alive.somebody_is_left());
    assert!(other.end().success());
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_server_that_crashed_is_started_again_at_the_next_request() {
    let mut place = Place::new();
    let mut session = place.session(&["--restart"]);
    session.open();
    place.alive.ready(1);
    let silent = session.ask("tools/call", json!({"name": "silent"}));
    let crash = session.ask("tools/call", json!({"name": "crash"}));
    let mut failed = Vec::new();
    for _ in 0..2 {
        let answer: serde_json::Value = serde_json::from_str(&session.line()).unwrap();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        failed.push(answer["id"].as_u64().unwrap());
    }
    failed.sort_unstable();
    assert_eq!(failed, [silent, crash]);
    place.alive.nobody_is_left();
    place.heard();
    session.work();
    assert_eq!(place.heard().len(), 3, "handshake, and the call");
    place.alive.ready(1);
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_call_into_a_closed_input_is_refused_and_another_server_started() {
    use std::os::unix::process::ExitStatusExt as _;
    for option in ["--restart", "--lazy"] {
        let mut place = Place::new();
        let mut session = place.session(&[option, "--grace", "300ms"]);
        session.open();
        place.alive.ready(1);
        let deaf = json!({"name": "deaf"});
        assert!(session.call("tools/call", deaf)["result"].is_object());
        let refused = session.call("tools/call", json!({"name": "one"}));
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("closed its input"), "{refused}");
        if option == "--restart" {
            place.alive.nobody_is_left();
            // Before the relay knows of that end, it refuses another one.
            let one = json!({"name": "one"});
            while session.call("tools/call", one.clone())["error"].is_object() {}
            place.alive.ready(1);
            assert!(session.end().success());
        } else {
            // Without it the relay ends as its server does.
            assert_eq!(session.server.ended().0.signal(), Some(15));
        }
        place.alive.nobody_is_left();
    }
}

#[test]
fn without_restart_the_relay_ends_as_the_server_did() {
    let mut place = Place::new();
    for (name, code, signal) in [("exit", Some(7), None), ("crash", None, Some(9))] {
        let mut session = place.session(&["--lazy"]);
        session.open();
        session.ask("tools/call", json!({"name": name}));
        let (status, said) = session.server.ended();
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(
            (status.code(), status.signal(), said.as_str()),
            (code, signal, "")
        );
        place.alive.ready(1);
        place.alive.nobody_is_left();
    }
}

#[test]
fn no_server_outlives_a_relay_that_is_killed_or_told_to_end() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT] {
        let mut place = Place::new();
        let mut session = place.session(&["--lazy", "--grace", "500ms"]);
        session.open();
        place.alive.ready(1);
        session.ask("tools/call", json!({"name": "silent"}));
        session.killed_by(signal);
        place.alive.nobody_is_left();
    }
}

#[test]
fn an_idle_relay_dies_of_a_signal_and_ends_with_its_input() {
    let mut place = Place::new();
    place.learn();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut session = place.session(&["--lazy"]);
        session.open();
        assert_eq!(session.killed_by(signal), Some(signal as i32));
    }
    let mut session = place.session(&["--lazy"]);
    session.open();
    assert_eq!(session.end().code(), Some(0));
    assert_eq!(place.heard(), [""; 0]);
}

#[test]
fn a_program_that_is_not_there_is_said_as_without_the_relay() {
    let place = Place::new();
    for (options, is_answered) in [(&["--lazy"][..], false), (&["--lazy", "--restart"], true)] {
        let words = [options, &["/no/such/program"]].concat();
        let mut session =
            crate::session::Session::start(&place, &words, crate::host::Streams::Sockets);
        session.ask("initialize", json!({}));
        if is_answered {
            assert!(session.line().contains("exit code 127"));
            session.server.stdin = None;
        }
        let (status, said) = session.server.ended();
        assert_eq!(
            status.code(),
            Some(if is_answered { 0 } else { 127 }),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn what_is_said_of_a_server_is_said_of_each_that_the_relay_starts() {
    let place = Place::new();
    let log = place.alive.file("log");
    let log = log.to_str().unwrap();
    let script = "echo $PATH >&2; exec cat";
    let words = [
        "--restart",
        "--log",
        log,
        "--path",
        "login",
        "sh",
        "-c",
        script,
    ];
    let shell = place.alive.file("shell");
    let text = "#!/bin/sh\nPATH=$PATH:/of/login exec sh -c \"$2\"\n";
    copies::script(&shell, text, 0o700).unwrap();
    let mut command = crate::host::wrapped(&words);
    command.env("SHELL", shell).env("PATH", "/bin:/usr/bin");
    let mut server = crate::host::Server::start(&mut command, crate::host::Streams::Pipes);
    server.stdin = None;
    let (status, said) = server.ended();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    let logged = std::fs::read_to_string(log).unwrap();
    assert_eq!(logged, "/bin:/usr/bin:/of/login\n");
}

/// The children of this process.
fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let numbers = text.split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn no_server_is_started_while_something_of_the_last_one_may_live() {
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    let mut place = Place::new();
    // Who wiped its mark is found by nobody, and its guardian's cgroup is killed only if there is one.
    let helper = "trap '' TERM; echo $$ >helper; printf x >&9; while :; do read never <&8; done";
    let helper = format!(
        "setsid env -i sh -c \"{}\" 2>&- &",
        helper.replace('$', "\\$")
    );
    let script = place.alive.script(&format!("{helper} exec cat"));
    let words = ["--restart", "--grace", "100ms", "sh", "-c", &script];
    let streams = crate::host::Streams::Pipes;
    let mut session = crate::session::Session::start(&place, &words, streams);
    place.alive.ready(1);
    let shim = children(session.server.pid().as_raw())[0];
    let guardian = children(shim)[0];
    // First the one who would kill the cgroup for the other.
    for pid in [shim, guardian] {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    }
    for pid in [shim, guardian] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    session.ask("tools/call", json!({}));
    // The server may have lived for long enough to say it back.
    let mut lines = std::iter::repeat_with(|| session.line());
    let answer = lines.find(|line| line.contains("error")).unwrap();
    assert!(answer.contains("may live"), "{answer}");
    let (status, said) = session.server.ended();
    assert_eq!(
        (status.code(), said.lines().count()),
        (Some(125), 1),
        "{said}"
    );
    assert!(place.alive.somebody_is_left());
    let helper = std::fs::read_to_string(place.alive.file("helper")).unwrap();
    kill(
        Pid::from_raw(helper.trim().parse().unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    place.alive.nobody_is_left();
}

#[test]
fn a_shim_that_may_wait_for_containers_is_given_the_time_and_proves_nothing_if_it_is_killed() {
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    use std::os::unix::process::ExitStatusExt as _;
    use std::time::{Duration, Instant};
    // Without an engine there is no companion to wait for: a shim that is stopped is as deaf.
    let started = ["--containers=never", "--containers=auto"].map(|option| {
        let mut place = Place::new();
        let script = place.alive.script("printf x >&9; exec cat");
        let words = [
            "--restart",
            "--grace",
            "100ms",
            option,
            "sh",
            "-c",
            &script,
            "docker",
        ];
        let mut command = crate::host::wrapped(&words);
        command
            .env("HOME", place.alive.file(""))
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        let streams = crate::host::Streams::Pipes;
        let mut session = crate::session::Session::of(&mut command, streams);
        place.alive.ready(1);
        let shim = children(session.server.pid().as_raw())[0];
        let words = || std::fs::read_to_string(format!("/proc/{shim}/cmdline")).unwrap();
        let end = Instant::now() + crate::host::DEADLINE;
        while words().split('\0').nth(1) != Some("shim") {
            assert!(Instant::now() < end, "it does not become the shim");
            std::thread::yield_now();
        }
        kill(Pid::from_raw(shim), Signal::SIGSTOP).unwrap();
        session.server.stdin = None;
        (place, session, Instant::now())
    });
    let [without, with] = started.map(|(mut place, session, begin)| {
        let (status, said) = session.server.ended();
        let took = begin.elapsed();
        place.alive.nobody_is_left();
        (status.code(), status.signal(), took, said)
    });
    for end in [&without, &with] {
        assert_eq!((end.0, end.1), (Some(125), None), "{end:?}");
        assert!(end.3.contains("its containers, may live"), "{end:?}");
    }
    let (least, more) = (Duration::from_secs(15), Duration::from_secs(4));
    assert!(
        with.2 > least && without.2 + more < with.2,
        "{without:?} {with:?}"
    );
}
