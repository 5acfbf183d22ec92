//! Somebody stops the guardian or traces it: it neither acts nor answers, and
//! unlike a dead one it does not say so either.

use std::fs;
use std::io::{Read, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{ErrorChain, Evidence, LaunchedServer};
use mcp_lifecycle_core::terminate::{ServerHandle, TerminationPolicy};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ended::proof_beside_strangers;
use crate::guardian_killed::{adopts_its_orphans, guardian_of};
use crate::stage::{LIMIT, Stage, has_cgroups, leaves, perform, plays, start};

/// The shapes that leave, and the roles that say hello.
const SHAPES: [(&str, &[&str]); 3] = [
    ("ignore-eof-term", &["server"]),
    ("double-fork", &["server", "daemon"]),
    ("wiped-env", &["server", "daemon", "wiped-env"]),
];

fn launch(stage: &Stage, shape: &str, roles: &[&str]) -> (LaunchedServer, Pid) {
    let server = stage.launch(&[shape, "--ignore-eof", "--ignore-term"]);
    for role in roles {
        stage.wait_for(role);
    }
    let guardian = guardian_of(&server);
    (server, guardian)
}

/// Returns when the process is in this state.
pub(crate) fn wait_for_state(pid: Pid, state: char) {
    let end = Instant::now() + LIMIT;
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after = stat.rsplit_once(") ").unwrap().1;
        if after.starts_with(state) {
            return;
        }
        assert!(Instant::now() < end, "{pid} is not {state}: {stat}");
        std::thread::yield_now();
    }
}

fn stop(guardian: Pid) -> Stopped {
    let stopped = Stopped(guardian);
    kill(guardian, Signal::SIGSTOP).unwrap();
    wait_for_state(guardian, 'T');
    stopped
}

/// A stopped guardian, which no failed test leaves behind.
#[must_use = "on drop it goes on if the test has failed"]
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // Otherwise it has gone, and its number may be another's.
        if std::thread::panicking() {
            let _ = kill(self.0, Signal::SIGCONT);
        }
    }
}

#[test]
fn a_stopped_one_goes_on_and_proves_the_end() {
    perform("guardian_held::stopped");
}

#[test]
#[ignore = "a role"]
fn stopped() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    for (shape, roles) in SHAPES {
        let (server, guardian) = launch(&stage, shape, roles);
        let _stopped = stop(guardian);
        let terminator = server.terminator().clone();
        let named = stage.wait("the names", terminator.survivors()).unwrap();
        assert!(
            named.iter().any(|it| it.id == guardian.to_string()),
            "a stopped guardian is named: {named:?}"
        );
        assert!(named.len() > roles.len().min(2), "{shape}: {named:?}");
        stage
            .wait("the order", terminator.force_end())
            .expect("given");
        let gone = stage.wait("the proof", terminator.gone()).expect("proof");
        assert_eq!(gone.evidence[0], Evidence::Reaped, "{shape}");
        let swept = roles.len().min(2) - 1;
        assert_eq!(gone.swept.len(), swept, "{shape}: {gone:?}");
        assert!(gone.swept.iter().all(|it| !it.name.is_empty()), "{gone:?}");
        stage.nobody_is_left();
        assert!(leaves().is_empty(), "{:?}", leaves());
    }
    // Dropped without a word.
    let (server, guardian) = launch(&stage, "double-fork", &["server", "daemon"]);
    let _stopped = stop(guardian);
    let terminator = server.terminator().clone();
    drop(server);
    stage.nobody_is_left();
    stage.wait("the proof", terminator.gone()).expect("proof");
}

#[test]
fn a_ladder_with_a_stopped_guardian_is_as_fast_as_any() {
    perform("guardian_held::ladder");
}

#[test]
#[ignore = "a role"]
fn ladder() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let (server, guardian) = launch(&stage, "ignore-eof-term", &["server"]);
    let _stopped = stop(guardian);
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_millis(10))
        .term_grace(Duration::from_millis(10))
        .kill_confirmation(LIMIT);
    let parts = server.into_parts();
    let report = stage.wait("the end", async {
        let (handle, _stdin) = ServerHandle::new("held", parts.stdin, parts.terminator);
        handle
            .terminate(&policy, mcp_lifecycle_core::terminate::EndReason::Shutdown)
            .await
    });
    let report = report.unwrap_or_else(|error| panic!("{}", ErrorChain(&error)));
    assert!(
        report.to_string().contains("every process was reaped"),
        "{report}"
    );
    stage.nobody_is_left();
}

#[test]
fn one_whose_socket_is_full_is_told_by_its_end() {
    perform("guardian_held::deafened");
}

#[test]
#[ignore = "a role"]
fn deafened() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let (server, guardian) = launch(&stage, "double-fork", &["server", "daemon"]);
    let terminator = server.terminator().clone();
    let _stopped = stop(guardian);
    let end = Instant::now() + LIMIT;
    // Each request lets it go on, so it is stopped again before each.
    while stage
        .wait("a request", async {
            kill(guardian, Signal::SIGSTOP).unwrap();
            terminator.request_end().await
        })
        .is_ok()
    {
        assert!(Instant::now() < end, "the socket never fills");
    }
    let _stopped = stop(guardian);
    drop(server);
    let gone = stage.wait("the proof", terminator.gone()).expect("proof");
    assert_eq!(gone.swept_count, 1, "{gone:?}");
    stage.nobody_is_left();
}

#[test]
fn a_traced_one_is_replaced_by_the_host_or_named() {
    perform("guardian_held::traced");
}

#[test]
#[ignore = "a role"]
fn traced() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    for (shape, roles) in SHAPES {
        let (server, guardian) = launch(&stage, shape, roles);
        let tracer = Tracer::of(guardian);
        wait_for_state(guardian, 't');
        let terminator = server.terminator().clone();
        stage
            .wait("the order", terminator.force_end())
            .expect("given");
        // Whoever the tracer's grip on the guardian protects: nobody.
        stage.nobody_is_left();
        if has_cgroups() {
            let gone = proof_beside_strangers(&stage, &*terminator).expect("proof");
            assert_eq!(gone.evidence[0], Evidence::CgroupEmpty, "{shape}");
            assert!(leaves().is_empty(), "{:?}", leaves());
            drop(tracer);
        } else {
            let named = stage.wait("the names", terminator.survivors()).unwrap();
            let text = format!("{named:?}");
            assert!(text.contains("held by a tracer"), "{text}");
            drop(tracer);
            stage.wait("the proof", terminator.gone()).expect("proof");
        }
    }
}

#[test]
fn a_zombie_that_a_tracer_holds_is_named() {
    perform("guardian_held::zombie");
}

#[test]
#[ignore = "a role"]
fn zombie() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let (server, _) = launch(&stage, "ignore-eof-term", &["server"]);
    let terminator = server.terminator().clone();
    let mcp_lifecycle_core::launch::ServerIdentity::Process { pid, .. } = terminator.identity()
    else {
        panic!("a process")
    };
    let pid = Pid::from_raw(pid.cast_signed());
    let tracer = Tracer::of(pid);
    wait_for_state(pid, 't');
    stage
        .wait("the order", terminator.force_end())
        .expect("given");
    stage.nobody_is_left();
    wait_for_state(pid, 'Z');
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!(named[0].id, pid.to_string());
    assert!(named[0].name.contains("held by a tracer"), "{named:?}");
    drop(tracer);
    stage.wait("the proof", terminator.gone()).expect("proof");
}

/// A process that traces another one, as a debugger does.
pub(crate) struct Tracer(Child);

const TRACED: &str = "MCP_TEST_TRACED";
const AT_EXIT: &str = "MCP_TEST_AT_EXIT";

impl Tracer {
    /// Holds it where it is.
    pub(crate) fn of(pid: Pid) -> Self {
        Self::start(&[(TRACED, pid.to_string())])
    }

    /// Lets it run, and holds it once it is about to have ended.
    pub(crate) fn until_exit(pid: Pid) -> Self {
        Self::start(&[(TRACED, pid.to_string()), (AT_EXIT, String::new())])
    }

    fn start(what: &[(&str, String)]) -> Self {
        let mut tracer = start("guardian_held::tracer", what);
        let mut said = Vec::new();
        let mut output = tracer.stdout.take().unwrap();
        while !said.ends_with(b"tracing\n") {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "it cannot trace");
            said.push(byte[0]);
        }
        Self(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "a role"]
fn tracer() {
    if !plays() {
        return;
    }
    let pid: i32 = std::env::var(TRACED).unwrap().parse().unwrap();
    let pid = Pid::from_raw(pid);
    if std::env::var_os(AT_EXIT).is_some() {
        ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACEEXIT).unwrap();
    } else {
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
    }
    println!("tracing");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}
