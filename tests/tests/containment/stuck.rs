//! Strangers who never say whose they are: they keep back no answer.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use mcp_lifecycle_core::launch::ErrorChain;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::guardian_held::{Tracer, wait_for_state};
use crate::stage::{Stage, perform, plays};

#[test]
fn a_stranger_that_cannot_end_and_has_no_name_keeps_no_answer_back() {
    perform("stuck::nameless");
}

#[test]
#[ignore = "a role"]
fn nameless() {
    if !plays() || !geteuid().is_root() {
        return println!("NOT TESTED: making a PID namespace takes root");
    }
    let stage = Stage::new();
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    let terminator = server.terminator().clone();
    let stranger = Nameless::start();
    drop(server);
    let error = stage.wait("a word", terminator.gone());
    let text = ErrorChain(&error.expect_err("nobody can tell whose that one is")).to_string();
    assert!(text.contains(&stranger.init.to_string()), "{text}");
    stage.nobody_is_left();
    drop(stranger);
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
}

/// The first process of a PID namespace, which has ended and waits for another one in it.
struct Nameless {
    outside: Child,
    init: Pid,
    tracer: Option<Tracer>,
}

impl Nameless {
    fn start() -> Self {
        let mut outside = Command::new("unshare");
        outside.args([
            "--pid",
            "--fork",
            "sh",
            "-c",
            "sleep 1000 & echo; exec sleep 1000",
        ]);
        let outside = outside.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut outside = outside.process_group(0).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(outside.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let init = only_child_of(outside.id());
        let other = only_child_of(init.as_raw().cast_unsigned());
        let tracer = Tracer::until_exit(other);
        kill(init, Signal::SIGKILL).unwrap();
        wait_for_state(other, 't');
        Self {
            outside,
            init,
            tracer: Some(tracer),
        }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        self.tracer.take();
        self.outside.wait().unwrap();
    }
}

fn only_child_of(pid: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    Pid::from_raw(children.unwrap().trim().parse().unwrap())
}
