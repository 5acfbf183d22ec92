//! One that nothing ends: it keeps nobody else from being ended.

use std::fs;
use std::io::{PipeReader, Read, pipe};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use nix::unistd::Pid;

use crate::guardian_held::{Tracer, wait_for_state};
use crate::guardian_killed::parent_of;
use crate::orphans::{end, kill_with_guardians, launched, ledgers, start_host};
use crate::stage::{Stage, perform, plays};
use crate::unseen::ends_all;

/// More than a search holds at a time.
const MANY: usize = 70;

/// Processes that carry the mark of another one.
struct Marked {
    processes: Vec<Child>,
    /// At its end, all of them have ended.
    ended: Option<PipeReader>,
}

impl Marked {
    fn start(like: Pid) -> Self {
        let environment = fs::read(format!("/proc/{like}/environ")).unwrap();
        let environment = String::from_utf8(environment).unwrap();
        let mut variables = environment.split('\0');
        let mark = variables.find_map(|it| it.strip_prefix("MCP_LIFECYCLE_ID="));
        let (ended, held) = pipe().unwrap();
        let start = || {
            let mut process = Command::new("sleep");
            process.arg("1000").env("MCP_LIFECYCLE_ID", mark.unwrap());
            process
                .stdout(held.try_clone().unwrap())
                .stdin(Stdio::null());
            process.spawn().unwrap()
        };
        Self {
            processes: (0..MANY).map(|_| start()).collect(),
            ended: Some(ended),
        }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn one_that_nothing_ends_keeps_nobody_else() {
    perform("unkillable::server");
}

#[test]
#[ignore = "a role"]
fn server() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["ignore-eof-term"], false);
    let servers = launched(&mut host);
    stage.wait_for("server");
    let server = Pid::from_raw(i32::try_from(servers[0]).unwrap());
    let marked = Marked::start(server);
    // SIGKILL takes it as far as its exit, where it is held as one in the middle of a
    // write to a broken disk is.
    let tracer = Tracer::until_exit(server);
    kill_with_guardians(host, &servers);
    wait_for_state(server, 't');
    ends_but_one(&stage, marked);
    drop(tracer);
    ends_all(&stage);
}

#[test]
fn a_guardian_that_cannot_finish_keeps_nobody_else() {
    perform("unkillable::guardian");
}

#[test]
#[ignore = "a role"]
fn guardian() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["ignore-eof-term"], false);
    let servers = launched(&mut host);
    stage.wait_for("server");
    let marked = Marked::start(Pid::from_raw(i32::try_from(servers[0]).unwrap()));
    let guardian = parent_of(servers[0]);
    let tracer = Tracer::of(guardian);
    wait_for_state(guardian, 't');
    end(host);
    ends_but_one(&stage, marked);
    drop(tracer);
    ends_all(&stage);
}

/// Looks for orphans: all of these end long before the search gives the one up.
#[track_caller]
fn ends_but_one(stage: &Stage, mut marked: Marked) {
    let begun = Instant::now();
    let mut ended = marked.ended.take().unwrap();
    let ended = thread::spawn(move || {
        ended.read_to_end(&mut Vec::new()).unwrap();
        begun.elapsed()
    });
    let report = stage.wait("the search", stage.launcher.reap_orphans());
    let (report, took) = (report.unwrap(), begun.elapsed());
    assert!(report.ended.len() >= MANY, "{report:?}");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(ledgers(), 1, "it stays on record: {report:?}");
    let ended = ended.join().unwrap();
    assert!(ended < took / 2, "{ended:?} of {took:?}");
}
