//! A shim that somebody kills: the server ends by its guardian, and nobody has said so. And one whose relay was started to ignore the ends of children.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::host::BOTH;
use crate::session::{Place, Session};

/// The same command, by a host that ignores SIGCHLD: exec passes that on. Not by a shell: `trap '' CHLD` ignores nothing in some of them.
fn ignoring(command: &Command) -> Command {
    let mut by_env = Command::new("env");
    by_env.arg("--ignore-signal=CHLD");
    by_env.arg(command.get_program()).args(command.get_args());
    let changed = command.get_envs();
    by_env.envs(changed.filter_map(|(name, value)| Some((name, value?))));
    by_env
}

#[test]
fn a_relay_of_a_host_that_ignores_sigchld_hears_of_the_end_of_each_server() {
    for (options, streams) in [&["--restart"][..], &["--lazy", "--restart"]]
        .into_iter()
        .zip(BOTH)
    {
        let mut place = Place::new();
        let mut session = Session::of(&mut ignoring(&place.command(options)), streams);
        session.open();
        place.alive.ready(1);
        let answer = session.call("tools/call", json!({"name": "exit"}));
        assert!(answer["error"].is_object(), "{answer}");
        session.work();
        place.alive.ready(1);
        assert!(session.end().success());
        place.alive.nobody_is_left();
    }
}

#[test]
fn a_shim_that_somebody_killed_proves_nothing_of_its_server() {
    for options in [&["--restart"][..], &["--lazy", "--restart"]] {
        let mut place = Place::new();
        let mut session = place.session(options);
        session.open();
        place.alive.ready(1);
        let relay = session.server.pid();
        let children = fs::read_to_string(format!("/proc/{relay}/task/{relay}/children"));
        let shim = children.unwrap().trim().parse().expect("one child");
        kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
        place.alive.nobody_is_left();
        let (status, said) = session.server.ended();
        assert_eq!(status.code(), Some(125), "{status}: {said}");
        assert!(said.contains("the shim of the server was killed"), "{said}");
    }
}
