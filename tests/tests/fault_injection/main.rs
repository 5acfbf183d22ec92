//! Every system call of a launch and of an end fails in turn, in the host and in
//! the guardian, and nothing is left of the server.
//!
//! A host runs under a seccomp filter that asks this program about each call
//! ([`seccomp`]); the n-th one is answered with an error that is plausible for it
//! ([`faults`]), n from 0 until there are no more calls. Whatever the launch, the
//! end and the drop answer, nothing of the server may live when they say so, no
//! zombie and no descriptor may stay, nothing may hang, and the next launch works.
//!
//! Each level is tried as root and as nobody, each in two processes:
//!
//! ```text
//! main ── a worker for each level and user, two at a time
//!   worker (supervisor) ── a host for each call, forked, with nothing set up yet
//!     host ── the launch, the end; then one more of both
//! ```
//!
//! One error for each call, by the seed (`MCP_FAULTS_SEED`, printed); all of them
//! with `MCP_FAULTS=all`. A worker's name as argument runs that one alone, and a
//! number after it that one call: `guardian.root.ordered.host 17`.

#![cfg(target_os = "linux")]

mod faults;
mod host;
mod seccomp;
mod supervisor;

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mcp_launcher_local::Isolation;
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use host::Way;
use supervisor::{Fault, Outcome, Target};

const NOBODY: u32 = 65534;
const SEED: &str = "MCP_FAULTS_SEED";
const WORKER: &str = "MCP_FAULTS_WORKER";
const CGROUP: &str = "MCP_FAULTS_CGROUP";

/// So many numbers without a call in a row mean that there are no more: how many
/// there are differs by one or the other between runs.
const NO_MORE: usize = 3;

/// From here on calls are left out, more and more of them: a process group is
/// looked for among all processes of the machine, which is three calls for each.
const EXHAUSTIVE: usize = 260;

const LEVELS: [(&str, Isolation); 3] = [
    ("guardian", Isolation::Guardian),
    ("namespace", Isolation::PidNamespace),
    ("group", Isolation::ProcessGroup),
];

const USERS: [(&str, Option<u32>); 2] = [("root", None), ("nobody", Some(NOBODY))];

const WAYS: [(&str, Way); 4] = [
    ("denied", Way::Denied),
    ("ordered", Way::Ordered),
    ("dropped", Way::Dropped),
    ("missing", Way::Missing),
];

const TARGETS: [(&str, Target); 2] = [("host", Target::Host), ("guardian", Target::Guardian)];

/// What a sandbox may refuse for good, and what the launch has to say of it: what
/// the server got instead, or why it was not launched.
const DENIED: [(libc::c_long, &str); 6] = [
    (libc::SYS_signalfd4, "process group (*signalfd"),
    (libc::SYS_prctl, "process group (*PR_SET_CHILD_SUBREAPER"),
    (libc::SYS_socketpair, "process group (*its socket"),
    (libc::SYS_pidfd_open, "pidfd_open is refused"),
    (libc::SYS_memfd_create, "contained guardian"),
    (libc::SYS_close_range, "contained guardian"),
];

/// One worker's work, by its name.
#[derive(Debug, Clone)]
struct Job {
    name: String,
    isolation: Isolation,
    user: Option<u32>,
    way: Way,
    target: Target,
}

fn main() -> ExitCode {
    if let Ok(name) = env::var(WORKER) {
        return work(&name);
    }
    let only: Vec<String> = env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    if env::args().any(|argument| argument == "--list") {
        println!("fault_injection: test");
        return ExitCode::SUCCESS;
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = env::var(SEED).unwrap_or_else(|_| clock.subsec_micros().to_string());
    println!("every system call in turn; seed {seed} ({SEED})");
    let begun = Instant::now();
    let mut waiting: VecDeque<Job> = jobs()
        .into_iter()
        .filter(|job| only.is_empty() || only.iter().any(|only| job.name.contains(only.as_str())))
        .collect();
    let call = only.iter().find(|only| only.parse::<usize>().is_ok());
    if call.is_some() {
        waiting = jobs()
            .into_iter()
            .filter(|job| only.contains(&job.name))
            .collect();
    }
    let mut failed = Vec::new();
    let mut running: VecDeque<(Job, Stage, Child)> = VecDeque::new();
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < 2
            && let Some(job) = waiting.pop_front()
        {
            let stage = Stage::new(&job);
            let child = stage.start(&job, &seed, call.map_or("", |call| call));
            running.push_back((job, stage, child));
        }
        let Some((job, stage, mut child)) = running.pop_front() else {
            break;
        };
        let mut said = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        print!("{said}");
        if !child.wait().unwrap().success() {
            failed.push(job.name);
        }
        drop(stage);
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("FAILED: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Everything; as another user only if this one is root.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (way_name, way) in WAYS {
        for (level, isolation) in LEVELS {
            for (user_name, user) in USERS {
                for (target_name, target) in TARGETS {
                    let no_guardian =
                        isolation == Isolation::ProcessGroup && target == Target::Guardian;
                    let once = isolation == Isolation::Guardian && target == Target::Host;
                    if (way == Way::Denied && !once)
                        || no_guardian
                        || (user.is_some() && !geteuid().is_root())
                    {
                        continue;
                    }
                    jobs.push(Job {
                        name: format!("{level}.{user_name}.{way_name}.{target_name}"),
                        isolation,
                        user,
                        way,
                        target,
                    });
                }
            }
        }
    }
    jobs
}

/// What a worker needs: a directory of its own, and a cgroup where there can be one.
struct Stage {
    directory: tempfile::TempDir,
    cgroup: Option<PathBuf>,
}

impl Stage {
    fn new(job: &Job) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("mcp-faults-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in("/tmp")
            .unwrap();
        for name in ["alive", "never"] {
            mkfifo(&directory.path().join(name), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        }
        fs::write(directory.path().join("broken"), "#!/no/such/interpreter\n").unwrap();
        fs::set_permissions(
            directory.path().join("broken"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        if let Some(user) = job.user {
            for path in [".", "alive", "never"] {
                chown(directory.path().join(path), Some(user), Some(user)).unwrap();
            }
        }
        let cgroup = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .filter(|root| job.user.is_none() && Path::new(root).join("cgroup.procs").exists())
            .map(|root| {
                Path::new(root).join(format!("mcp-faults-{}-{}", std::process::id(), job.name))
            })
            .find(|path| fs::create_dir(path).is_ok());
        Self { directory, cgroup }
    }

    fn start(&self, job: &Job, seed: &str, call: &str) -> Child {
        let mut command = Command::new("/proc/self/exe");
        command
            .env(WORKER, &job.name)
            .env(SEED, seed)
            .env("XDG_RUNTIME_DIR", self.directory.path())
            .arg(call)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(cgroup) = &self.cgroup {
            command.env(CGROUP, cgroup);
        }
        if let Some(user) = job.user {
            command.uid(user).gid(user);
        }
        command.spawn().unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(cgroup) = &self.cgroup else { return };
        // A leaf whose removal was one of the calls that failed stays.
        for leaf in fs::read_dir(cgroup).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(leaf.path());
        }
        let _ = fs::remove_dir(cgroup);
    }
}

/// A worker: all calls of one job.
fn work(name: &str) -> ExitCode {
    let job = jobs_of_all()
        .into_iter()
        .find(|job| job.name == name)
        .unwrap();
    let directory = PathBuf::from(env::var_os("XDG_RUNTIME_DIR").unwrap());
    if let Some(cgroup) = env::var_os(CGROUP) {
        fs::write(Path::new(&cgroup).join("cgroup.procs"), "0").unwrap();
    }
    seccomp::become_subreaper();
    let seed: usize = env::var(SEED).unwrap().parse().unwrap_or(0);
    let all = env::var("MCP_FAULTS").is_ok_and(|faults| faults == "all");
    let only: Option<usize> = env::args().nth(1).and_then(|call| call.parse().ok());
    let run = |fault, clean| supervisor::run(job.isolation, job.way, fault, &directory, clean);

    // What one launch more leaves in a host that is on its way is a leak; so what
    // is held is compared with a host in which nothing failed.
    let clean = run(None, None);
    let mut failures = report(name, "no fault", &clean);
    let clean = clean.census;
    if job.way == Way::Denied {
        for (number, expected) in DENIED {
            let fault = Fault {
                target: job.target,
                call: 0,
                error: 0,
                denied: Some(number),
            };
            let mut outcome = run(Some(fault), Some(clean.clone()));
            let said = outcome.said.join(" ");
            if !expected.split('*').all(|part| said.contains(part)) {
                outcome.wrong.push(format!("nobody said `{expected}`"));
            }
            failures += report(name, &faults::name(number), &outcome);
        }
        println!("{name}: {} refusals, {failures} wrong", DENIED.len());
        return ExitCode::from(u8::from(failures > 0));
    }
    let (mut call, mut none, mut tried) = (only.unwrap_or(0), 0, 0);
    while none < NO_MORE && failures < 20 {
        let mut error = if all { 0 } else { seed.wrapping_add(call) };
        loop {
            let fault = Fault {
                target: job.target,
                call,
                error,
                denied: None,
            };
            let outcome = run(Some(fault), Some(clean.clone()));
            let Some(injected) = &outcome.injected else {
                none += 1;
                break;
            };
            (none, tried) = (0, tried + 1);
            if only.is_some() {
                println!("{name} {call} {injected}: {:?}", outcome.said);
            }
            failures += report(name, &format!("{call} {injected}"), &outcome);
            error += 1;
            if !all || error >= outcome.errors {
                break;
            }
        }
        if only.is_some() {
            break;
        }
        call += 1 + call.saturating_sub(EXHAUSTIVE) / 8;
    }
    println!("{name}: {tried} faults, {failures} wrong");
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The worker of another user is not root, and finds its job all the same.
fn jobs_of_all() -> Vec<Job> {
    let mut jobs = jobs();
    jobs.extend(jobs.clone().into_iter().map(|job| Job {
        name: job.name.replace(".root.", ".nobody."),
        ..job
    }));
    jobs
}

/// Prints what is wrong with an outcome.
fn report(name: &str, what: &str, outcome: &Outcome) -> usize {
    for wrong in &outcome.wrong {
        println!("WRONG {name} {what}: {wrong} (said: {:?})", outcome.said);
    }
    usize::from(!outcome.wrong.is_empty())
}
