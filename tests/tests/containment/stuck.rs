//! Strangers who never say whose they are: they keep back no answer.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mcp_lifecycle_core::launch::{ErrorChain, ProcessTerminator};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, geteuid};

use crate::guardian_held::{Tracer, wait_for_state};
use crate::stage::{Stage, perform, plays};

#[test]
fn a_stranger_that_cannot_end_and_has_a_parent_here_keeps_no_proof_back() {
    perform("stuck::guarded");
}

#[test]
#[ignore = "a role"]
fn guarded() {
    if !plays() || !geteuid().is_root() {
        return println!("NOT TESTED: making a PID namespace takes root");
    }
    let (stage, terminator, stranger) = dropped_beside(FIRST);
    let gone = stage.wait("the proof", terminator.gone());
    gone.expect("whatever of the server were below the stranger's parent, its guardian has reaped");
    stage.nobody_is_left();
    drop(stranger);
}

#[test]
fn a_stranger_that_cannot_end_and_has_no_name_is_named_and_waited_for() {
    perform("stuck::nameless");
}

#[test]
#[ignore = "a role"]
fn nameless() {
    if !plays() || !geteuid().is_root() {
        return println!("NOT TESTED: making a PID namespace takes root");
    }
    let (stage, terminator, stranger) = dropped_beside(SECOND);
    let policy = TerminationPolicy::immediate();
    let error = stage.wait("an answer", async {
        let stdin = Box::new(tokio::io::sink());
        let (handle, _stdin) = ServerHandle::new("stuck", stdin, terminator.clone());
        handle.terminate(&policy, EndReason::Shutdown).await
    });
    let text = ErrorChain(&error.expect_err("nobody can tell whose that one is")).to_string();
    assert!(text.contains(&stranger.init.to_string()), "{text}");
    stage.nobody_is_left();
    // The proof comes as soon as the stranger has gone: nobody has to ask for it again.
    let watching = terminator.clone();
    let proof = stage.runtime.spawn(async move { watching.gone().await });
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    let text = format!("{named:?}");
    assert!(text.contains(&stranger.init.to_string()), "{text}");
    drop(stranger);
    stage.wait("the proof", proof).unwrap().unwrap();
}

/// A server that is dropped when such a stranger is there.
fn dropped_beside(script: &str) -> (Stage, Arc<dyn ProcessTerminator>, Nameless) {
    let stage = Stage::new();
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    let terminator = Arc::clone(server.terminator());
    let stranger = Nameless::start(script);
    drop(server);
    (stage, terminator, stranger)
}

/// A PID namespace, and one in another one.
const FIRST: &str = "sleep 1000 & echo; exec sleep 1000";
const SECOND: &str = "unshare --pid --fork sh -c 'sleep 1000 & echo; exec sleep 1000'; true";

/// The first process of a PID namespace, which has ended and waits for another one in it.
struct Nameless {
    outside: Child,
    init: Pid,
    tracer: Option<Tracer>,
}

impl Nameless {
    fn start(script: &str) -> Self {
        let mut outside = Command::new("unshare");
        outside.args(["--pid", "--fork", "sh", "-c", script]);
        let outside = outside.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut outside = outside.process_group(0).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(outside.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        // The last one of the chain is its child, and no first process.
        let chain: Vec<Pid> = descent(outside.id()).collect();
        let [.., init, other] = *chain else {
            panic!("{chain:?}")
        };
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
        let group = Pid::from_raw(self.outside.id().cast_signed());
        killpg(group, Signal::SIGKILL).unwrap();
        self.outside.wait().unwrap();
    }
}

/// The only child of a process, its only child, and so on.
fn descent(pid: u32) -> impl Iterator<Item = Pid> {
    let child = |pid: &Pid| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children.ok()?.trim().parse().ok().map(Pid::from_raw)
    };
    std::iter::successors(child(&Pid::from_raw(pid.cast_signed())), child)
}
