//! Strangers of the host's PID namespace, where `/proc` is that of an outer one: its numbers mean other processes.
//!
//! Outside, a chain of processes has consecutive numbers, each the parent of the next, and a tracer holds all of them. Inside, guardian and server have two
//! of these numbers, and strangers have those that follow: read from this `/proc`, the strangers are descendants of the server, and its guardian is held.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use mcp_lifecycle_conformance::random::Random;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::stage::{self, Stage, perform, plays};

const SEED: &str = "MCP_CONFORMANCE_SEED";
const FIRST: &str = "MCP_TEST_FIRST";

/// Numbers at the beginning of the chain that are left to guardians and servers.
const FREE: u32 = 40;
const STRANGERS: u32 = 24;
const LAUNCHES: u32 = 4;

/// The name of the processes outside, which no error may have.
const OUTSIDE: &str = "outside";

#[test]
fn strangers_in_a_foreign_proc_are_neither_signalled_nor_named() {
    perform("strangers::outer");
}

/// The processes outside, and the namespace inside, in a PID namespace of their own: numbers are free there.
#[test]
#[ignore = "a role"]
fn outer() {
    if !plays() {
        return;
    }
    let seed = env::var(SEED).map_or_else(|_| rand(), |seed| seed.parse().unwrap());
    println!("seed: {seed}");
    let mut wrapper = vec!["unshare", "--pid", "--fork", "--mount-proc"];
    if !geteuid().is_root() {
        wrapper.extend(["--user", "--map-root-user"]);
    }
    runs(&wrapper, "strangers::chain", &[(SEED, seed)]);
}

fn rand() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

/// Runs a role, which has to pass.
fn runs(wrapper: &[&str], name: &str, variables: &[(&str, u64)]) {
    let mut command = stage::role_within(wrapper, name);
    command.envs(
        variables
            .iter()
            .map(|(name, value)| (name, value.to_string())),
    );
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{name}: {}\n{stdout}{stderr}", output.status);
}

/// Has the next process of this namespace get this number, or the first free one after it.
fn next_number(number: u32) {
    fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
}

#[test]
#[ignore = "a role"]
#[expect(
    clippy::zombie_processes,
    reason = "it ends with its namespace, and that with this role"
)]
fn chain() {
    if !plays() {
        return;
    }
    let seed: u64 = env::var(SEED).unwrap().parse().unwrap();
    let first = 1000 + u32::try_from(Random::new(seed).below(20_000)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let shell = directory.path().join(OUTSIDE);
    symlink("/bin/sh", &shell).unwrap();
    let depth = FREE + STRANGERS + 8;
    let script = format!(
        "chain() {{ if [ $1 -gt 0 ]; then (chain $(($1 - 1))) & wait; else echo complete; exec sleep 1000; fi; }}; chain {depth}"
    );
    next_number(first);
    let mut head = Command::new(&shell);
    let mut head = head
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(head.id(), first);
    let mut line = String::new();
    BufReader::new(head.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "complete\n");
    for number in first..=first + depth {
        let pid = Pid::from_raw(number.cast_signed());
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
        crate::guardian_held::wait_for_state(pid, 't');
    }
    // Its numbers are its own, and `/proc` is the one here.
    runs(
        &["unshare", "--pid", "--fork"],
        "strangers::inner",
        &[(SEED, seed), (FIRST, first.into())],
    );
}

#[test]
#[ignore = "a role"]
fn inner() {
    if !plays() {
        return;
    }
    let first: u32 = env::var(FIRST).unwrap().parse().unwrap();
    let mut random = Random::new(env::var(SEED).unwrap().parse().unwrap());
    let stage = Stage::new();
    // The threads that launches need have numbers as well.
    let mut said = one_life(&stage);
    let strangers: Vec<Child> = (first + FREE..)
        .take(STRANGERS as usize)
        .map(stranger)
        .collect();
    for _ in 0..LAUNCHES {
        next_number(first + u32::try_from(random.below(u64::from(FREE) / 2)).unwrap());
        said += &one_life(&stage);
    }
    let ends: Vec<_> = strangers.into_iter().map(end).collect();
    assert_eq!(ends, [LAST; STRANGERS as usize], "strangers were signalled");
    assert!(!said.contains(OUTSIDE), "strangers were named: {said}");
}

/// The signal that each stranger ends by. Pending signals are delivered in the order of their numbers: SIGKILL and SIGTERM would come first.
const LAST: Signal = Signal::SIGVTALRM;

/// Ends a stranger, and returns the signal that it has ended by.
fn end(mut stranger: Child) -> Signal {
    kill(Pid::from_raw(stranger.id().cast_signed()), LAST).unwrap();
    let signal = stranger.wait().unwrap().signal();
    signal.unwrap().try_into().unwrap()
}

fn stranger(number: u32) -> Child {
    next_number(number);
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    assert_eq!(child.id(), number);
    child
}

/// The life of a server that is asked to end and then made to; returns what was said of it.
fn one_life(stage: &Stage) -> String {
    let server = stage.launch(&["double-fork", "--ignore-eof", "--ignore-term"]);
    for role in ["server", "daemon"] {
        stage.wait_for(role);
    }
    let terminator = server.terminator().clone();
    stage.wait("the request", terminator.request_end()).unwrap();
    let named = stage.wait("the names", terminator.survivors());
    let _ = stage.wait("the order", terminator.force_end());
    stage.nobody_is_left();
    let proof = stage.wait("the proof, or none", terminator.gone());
    format!("{named:?} {proof:?}\n")
}
