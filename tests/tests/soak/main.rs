//! The soak: random misbehaviour, random trouble of the host, random instant.
//!
//! `tests/run soak [MINUTES]`; what it does and how a failure is repeated is
//! told in `docs/soak.md`. A program of its own, without the test harness,
//! because it is also the hosts and reapers that it starts:
//!
//! ```text
//! supervisor ──▶ case ──starts──▶ host ──launches──▶ servers, each with what it starts
//!                 ▲                 │                   │
//!                 ├─ what it claims ┘                   │
//!                 └── end of file: the truth ───────────┘
//! ```
//!
//! A case is a process of its own, to which its orphans are given: those of others
//! are none of its.

#![cfg(target_os = "linux")]

mod case;
#[path = "../common/ended.rs"]
mod ended;
mod faults;
mod host;
mod judge;
mod plan;
mod process;
mod role;
mod servers;
mod stage;
mod told;
mod verdict;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fmt, process as os, thread};

use mcp_launcher_local::Isolation;

use crate::plan::{Machine, Plan};

/// Far more than anything here takes; reached only by a failure.
const LIMIT: Duration = Duration::from_secs(60);

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

/// The result of a check; the error is text for people.
type Check<T = ()> = Result<T, String>;

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let role = args.first().map_or("", String::as_str);
    match role {
        "case" => one_case(&args),
        "host" | "beside" | "reap" => role::settle(),
        _ => supervise(role),
    }
    match role {
        "reap" => role::reap(),
        "beside" => host::play(&Plan::beside(Isolation::Guardian)),
        _ => host::play(&Plan::from_args(&args)),
    }
}

impl Plan {
    fn from_args(args: &[String]) -> Self {
        let seed = args.get(1).and_then(|seed| seed.parse().ok());
        Self::draw(seed.unwrap_or_default(), Machine::from_flags(args))
    }
}

/// Runs one case, and says how it went.
fn one_case(args: &[String]) -> ! {
    if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
        println!("no subreaper: {error}");
        os::exit(1)
    }
    let run = case::run(&Plan::from_args(args), Machine::from_flags(args));
    let failed = run.is_err();
    println!(
        "{}",
        run.map_or_else(|failure| failure, told::Excused::encode)
    );
    os::exit(i32::from(failed))
}

/// Has a process run one case.
fn run_case(plan: &Plan, machine: Machine) -> Check<told::Excused> {
    let [user, cgroups] = machine.flags();
    let mut command = os::Command::new("/proc/self/exe");
    command.args(["case", &plan.seed.to_string(), user, cgroups]);
    command.stderr(os::Stdio::inherit());
    let output = command
        .output()
        .map_err(|error| format!("a case: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    match output.status.success() {
        true => told::Excused::decode(&said).ok_or(said),
        false => Err(format!("{said} ({})", output.status)),
    }
}

impl Machine {
    fn here() -> Self {
        Self {
            root: nix::unistd::geteuid().is_root(),
            cgroups: stage::cgroup_root().is_some(),
        }
    }

    /// As the supervisor found it: a host that is nobody must draw the same plan.
    fn from_flags(args: &[String]) -> Self {
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        Self {
            root: has("root"),
            cgroups: has("cgroups"),
        }
    }

    fn flags(self) -> [&'static str; 2] {
        [
            if self.root { "root" } else { "user" },
            if self.cgroups { "cgroups" } else { "flat" },
        ]
    }
}

fn supervise(minutes: &str) -> ! {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_micros() as u64;
    let minutes: f64 = minutes.parse().unwrap_or(10.0);
    let soak = Soak {
        // Short enough to be typed.
        seed: number("MCP_SOAK_SEED").unwrap_or(now % 1_000_000_000),
        rounds: number("MCP_SOAK_ROUNDS").unwrap_or(u64::MAX),
        stops: number("MCP_SOAK_STOP").is_some_and(|stop| stop > 0),
        end: Instant::now() + Duration::from_secs_f64(minutes * 60.0),
        machine: Machine::here(),
        next: AtomicU64::new(0),
        passed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        excused: Mutex::default(),
    };
    let jobs = number("MCP_SOAK_JOBS").unwrap_or(2);
    println!("soak: {minutes} minutes, {jobs} at a time, {soak}");
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| soak.run());
        }
    });
    let (passed, failed) = (soak.passed.into_inner(), soak.failed.into_inner());
    println!("{}", soak.excused.into_inner().unwrap_or_default());
    println!("{passed} passed, {failed} failed");
    os::exit(i32::from(failed > 0 || passed == 0))
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// All iterations.
struct Soak {
    /// Of the first iteration; the next one has the next number.
    seed: u64,
    rounds: u64,
    /// At the first failure.
    stops: bool,
    end: Instant,
    machine: Machine,
    next: AtomicU64,
    passed: AtomicU64,
    failed: AtomicU64,
    excused: Mutex<told::Excused>,
}

impl Soak {
    /// One iteration after the other.
    fn run(&self) {
        while Instant::now() < self.end {
            let round = self.next.fetch_add(1, Ordering::Relaxed);
            let stopped = self.stops && self.failed.load(Ordering::Relaxed) > 0;
            if round >= self.rounds || stopped {
                return;
            }
            let plan = Plan::draw(self.seed.wrapping_add(round), self.machine);
            if env::var_os("MCP_SOAK_PROGRESS").is_some() {
                eprintln!("iteration {round}: {plan}");
            }
            match run_case(&plan, self.machine) {
                Ok(more) => {
                    self.passed.fetch_add(1, Ordering::Relaxed);
                    let mut excused = self.excused.lock().unwrap_or_else(PoisonError::into_inner);
                    excused.add(more);
                }
                Err(failure) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!(
                        "FAILED in iteration {round}: {failure}\n  {plan}\n  again: \
                         MCP_SOAK_SEED={} MCP_SOAK_ROUNDS=1 tests/run soak\n",
                        plan.seed,
                    );
                }
            }
        }
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = match self.machine.root {
            true => "as root and as nobody",
            false => "NOT AS ROOT: as this user only",
        };
        let cgroups = match self.machine.cgroups {
            true => "with and without cgroups",
            false => "NO CGROUPS HERE: without",
        };
        write!(f, "{user}, {cgroups}; seed {}", self.seed)
    }
}
