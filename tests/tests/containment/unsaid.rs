//! Guardians that are killed before they could say that the server runs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig, StartError};
use mcp_lifecycle_core::terminate::TerminationPolicy;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ended::strangers_end;
use crate::gate::ask_about;
use crate::guardian_killed::adopts_its_orphans;
use crate::stage::{LIMIT, Stage, has_cgroups, perform, plays};

#[test]
fn a_start_whose_guardian_was_killed_says_who_may_be_left() {
    perform("unsaid::somebody_hides");
}

#[test]
#[ignore = "a role"]
fn somebody_hides() {
    if !plays() {
        return;
    }
    let silenced = Silenced::new();
    if has_cgroups() {
        return silenced.leaves_nothing(&["wiped-env"], "wiped-env");
    }
    let error = silenced.start(&["wiped-env"], "wiped-env");
    let cleanup = error.context().cleanup.as_ref();
    let ended = cleanup.unwrap_or_else(|| panic!("nobody is named: {error}"));
    let survivors = ended.as_ref().expect_err("it lives").to_string();
    assert!(survivors.contains("may be its"), "{error}");
    assert!(survivors.contains(KILLED), "{error}");
}

#[test]
fn a_start_whose_guardian_was_killed_and_that_left_nobody_says_so() {
    perform("unsaid::nobody_hides");
}

#[test]
#[ignore = "a role"]
fn nobody_hides() {
    if !plays() {
        return;
    }
    let silenced = Silenced::new();
    silenced.leaves_nothing(&["double-fork"], "daemon");
}

/// The end of the guardian, in the error text.
const KILLED: &str = "was killed (signal 9)";

/// A host whose guardians cannot say anything, from its first start on.
struct Silenced {
    stage: Stage,
    is_silent: Arc<AtomicBool>,
    speaks: mpsc::Receiver<Pid>,
}

impl Silenced {
    fn new() -> Self {
        adopts_its_orphans();
        let is_silent = Arc::new(AtomicBool::new(false));
        let (tell, speaks) = mpsc::channel();
        let holds = Arc::clone(&is_silent);
        ask_about(&[libc::SYS_sendmsg], move |listener, call| {
            let name = fs::read_to_string(format!("/proc/{}/comm", call.thread));
            match name.is_ok_and(|name| name == "mcp-guardian\n") && holds.load(Ordering::Relaxed) {
                true => tell.send(Pid::from_raw(call.thread.cast_signed())).unwrap(),
                false => listener.answer(call, None),
            }
        });
        let stage = Stage::new();
        // What the first launch finds out is found out with guardians that speak.
        let server = stage.launch(&["plain"]);
        let terminator = Arc::clone(server.terminator());
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
        stage.nobody_is_left();
        Self {
            stage,
            is_silent,
            speaks,
        }
    }

    /// Starts a server, whose guardian is killed when a process of this role is there.
    fn start(&self, args: &[&str], role: &str) -> StartError {
        let Stage {
            launcher, runtime, ..
        } = &self.stage;
        let config = ServerConfig::new(Arc::clone(launcher), self.stage.spec(args))
            .termination(TerminationPolicy::immediate());
        self.is_silent.store(true, Ordering::Relaxed);
        let start = runtime.spawn(LifecycleClient::start(config));
        let guardian = self.speaks.recv_timeout(LIMIT).unwrap();
        self.stage.wait_for(role);
        self.is_silent.store(false, Ordering::Relaxed);
        kill(guardian, Signal::SIGKILL).unwrap();
        let started = self.stage.wait("the start", start).unwrap();
        started.expect_err("nobody said that it runs")
    }

    /// The launch itself has the proof, unless strangers keep it back.
    #[track_caller]
    fn leaves_nothing(&self, args: &[&str], role: &str) {
        let mut error = self.start(args, role);
        let is_kept_back = |error: &StartError| match &error.context().cleanup {
            // They went before the second look.
            Some(Ok(_)) => true,
            _ => strangers_end(&self.stage, &error.to_string()),
        };
        while is_kept_back(&error) {
            error = self.start(args, role);
        }
        assert!(error.context().cleanup.is_none(), "{error}");
        let says = "nothing of the server is left";
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().contains(KILLED), "{error}");
        self.stage.nobody_is_left();
    }
}
