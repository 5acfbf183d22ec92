//! Every system call of a launch and of an end fails in turn, in the host and in
//! the guardian, and nothing is left of the server.
//!
//! A host runs under a seccomp filter that asks this program about each call
//! ([`seccomp`]); the n-th one is answered with an error that is plausible for it
//! ([`faults`]), n from 0 until there are no more calls. Whatever the launch, the
//! end and the drop answer, nothing of the server may live when they say so, no
//! zombie and no descriptor may stay, nothing may hang, and the next launch works.
//! An interruption is no failure: where every other call that can be interrupted
//! is, everything goes as if none had been.
//!
//! Each level is tried as root and as nobody:
//!
//! ```text
//! main ── workers, which mostly wait: several for each core at a time
//!   worker (supervisor) ── a host for each call, forked, with nothing set up yet
//!     host ── the launch, the end; then one more of both
//! ```
//!
//! One error for each call, by the seed (`MCP_FAULTS_SEED`, printed); all of them
//! with `MCP_FAULTS=all`. A job's name as argument runs that one alone, and a
//! number after it that one call: `guardian.root.ordered.host 17`.

#![cfg(target_os = "linux")]

mod faults;
mod host;
mod injector;
mod jobs;
mod processes;
mod seccomp;
mod stage;
mod supervisor;
mod worker;

use std::collections::VecDeque;
use std::env;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::unistd::geteuid;

use jobs::Job;
use stage::Stage;
use worker::Share;

/// How many workers run at a time, for each core.
const WORKERS: usize = 3;

fn main() -> ExitCode {
    if let Some(share) = Share::from_environment() {
        return worker::work(&share);
    }
    let has = |option: &str| env::args().any(|argument| argument == option);
    let jobs = jobs::jobs(geteuid().is_root());
    if has("--list") {
        // Each job is a test, and none is ignored.
        for job in jobs.iter().filter(|_| !has("--ignored")) {
            println!("{}: test", job.name);
        }
        return ExitCode::SUCCESS;
    }
    let mut only: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_number = |only: &String| only.parse::<usize>().is_ok();
    let call = only.iter().position(is_number).map(|at| only.remove(at));
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = env::var(worker::SEED).unwrap_or_else(|_| clock.subsec_micros().to_string());
    println!("every system call in turn; seed {seed} ({})", worker::SEED);
    let begun = Instant::now();
    let is_wanted = |job: &Job| match &call {
        Some(_) => only.contains(&job.name),
        None if has("--exact") => only.contains(&job.name),
        None => only.is_empty() || only.iter().any(|only| job.name.contains(only.as_str())),
    };
    let shares = jobs
        .into_iter()
        .filter(is_wanted)
        .flat_map(|job| Share::all_of(&job, &seed, call.as_deref()));
    let waiting: Mutex<VecDeque<Share>> = Mutex::new(shares.collect());
    let failed: Mutex<Vec<String>> = Mutex::default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores * WORKERS {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some(share) = next else { break };
                    if !perform(&share) {
                        failed.lock().unwrap().push(share.to_string());
                    }
                }
            });
        }
    });
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("FAILED: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Has a worker do its share; says whether all went well.
fn perform(share: &Share) -> bool {
    let stage = Stage::new(share.job());
    let mut child = stage.start(share);
    let mut said = String::new();
    let mut output = child.stdout.take().unwrap();
    output.read_to_string(&mut said).unwrap();
    print!("{said}");
    child.wait().unwrap().success()
}
