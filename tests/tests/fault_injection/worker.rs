//! A worker: the calls of one job, or its share of them.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::faults;
use crate::host::Way;
use crate::injector::{Fault, Target};
use crate::jobs::{Job, REFUSALS, Trial, WAYS, jobs};
use crate::stage::CGROUP;
use crate::supervisor::{self, Outcome};

pub(crate) const SEED: &str = "MCP_FAULTS_SEED";
const WORKER: &str = "MCP_FAULTS_WORKER";
const PART: &str = "MCP_FAULTS_PART";
const CALL: &str = "MCP_FAULTS_CALL";

/// So many numbers without a call in a row mean that there are no more: how many
/// there are differs by one or the other between runs.
const NO_MORE: usize = 3;

/// From here on calls are left out, more and more of them, by the seed: a process
/// group is looked for among all processes of the machine, which is three calls
/// for each.
const EXHAUSTIVE: usize = 260;

/// So many faults of a job are told.
const TOLD_MAX: usize = 20;

/// The share of one worker in a job.
#[derive(Debug)]
pub(crate) struct Share {
    job: Job,
    part: usize,
    seed: String,
    /// This call alone.
    call: Option<String>,
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.job.parts {
            1 => write!(f, "{}", self.job.name),
            parts => write!(f, "{} ({} of {parts})", self.job.name, self.part + 1),
        }
    }
}

impl Share {
    /// The shares of a job; one, if it is for one call.
    pub(crate) fn all_of(job: &Job, seed: &str, call: Option<&str>) -> Vec<Self> {
        let parts = call.map_or(job.parts, |_| 1);
        let share = |part| Self {
            job: Job {
                parts,
                ..job.clone()
            },
            part,
            seed: seed.to_owned(),
            call: call.map(str::to_owned),
        };
        (0..parts).map(share).collect()
    }

    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Has the worker that `command` starts find it.
    pub(crate) fn pass_to(&self, command: &mut Command) {
        command
            .env(WORKER, &self.job.name)
            .env(PART, self.part.to_string())
            .env(SEED, &self.seed)
            .env(CALL, self.call.as_deref().unwrap_or_default());
    }

    /// The share that this process was started for, if it is a worker.
    pub(crate) fn from_environment() -> Option<Self> {
        let name = env::var(WORKER).ok()?;
        let mut job = jobs(true).into_iter().find(|job| job.name == name)?;
        let call = env::var(CALL).ok().filter(|call| !call.is_empty());
        if call.is_some() {
            job.parts = 1;
        }
        Some(Self {
            job,
            part: env::var(PART).ok()?.parse().ok()?,
            seed: env::var(SEED).ok()?,
            call,
        })
    }
}

/// Does its share, prints what is wrong, and says whether anything is.
pub(crate) fn work(share: &Share) -> ExitCode {
    let directory = PathBuf::from(env::var_os("XDG_RUNTIME_DIR").unwrap());
    if let Some(cgroup) = env::var_os(CGROUP) {
        fs::write(Path::new(&cgroup).join("cgroup.procs"), "0").unwrap();
    }
    crate::seccomp::become_subreaper();
    let mut work = Work {
        share,
        directory,
        wrong: 0,
    };
    let tried = match share.job.trial {
        Trial::Each(way, target) => work.each(way, target),
        Trial::Refused => work.refusals(),
        Trial::Interrupted => work.interruptions(),
        Trial::Oversized => work.sizes(),
    };
    println!("{share}: {tried} faults, {} wrong", work.wrong);
    ExitCode::from(u8::from(work.wrong > 0 || tried == 0))
}

struct Work<'a> {
    share: &'a Share,
    directory: PathBuf,
    wrong: usize,
}

impl Work<'_> {
    /// Measures a run without faults. Whatever one launch more leaves in a host that is on its way is a leak; so what
    /// is held is compared with a host in which nothing failed.
    fn clean(&mut self, way: Way) -> Outcome {
        let clean = self.run(way, None, None);
        self.judge("no fault", &clean);
        clean
    }

    fn run(&self, way: Way, fault: Option<Fault>, clean: Option<&Outcome>) -> Outcome {
        let clean = clean.map(|clean| clean.census.clone());
        supervisor::run(self.share.job.isolation, way, fault, &self.directory, clean)
    }

    fn each(&mut self, way: Way, target: Target) -> usize {
        let share = self.share;
        let seed: usize = share.seed.parse().unwrap_or(0);
        let all = env::var("MCP_FAULTS").is_ok_and(|faults| faults == "all");
        let clean = self.clean(way);
        let one = share.call.as_ref().map(|call| call.parse().unwrap());
        let calls: Box<dyn Iterator<Item = usize>> = match one {
            Some(call) => Box::new(std::iter::once(call)),
            None => Box::new(calls(seed).skip(share.part).step_by(share.job.parts)),
        };
        let (mut none, mut tried) = (0, 0);
        for call in calls {
            let mut error = if all { 0 } else { seed.wrapping_add(call) };
            loop {
                let fault = Fault::Call {
                    target,
                    call,
                    error,
                };
                let outcome = self.run(way, Some(fault), Some(&clean));
                let Some(injected) = &outcome.injected.last else {
                    none += 1;
                    break;
                };
                (none, tried) = (0, tried + 1);
                if one.is_some() {
                    println!("{share} {call} {injected}: {:?}", outcome.said);
                }
                self.judge(&format!("{call} {injected}"), &outcome);
                error += 1;
                if !all || error >= outcome.injected.errors {
                    break;
                }
            }
            if none == NO_MORE || self.wrong >= TOLD_MAX {
                break;
            }
        }
        tried
    }

    fn refusals(&mut self) -> usize {
        let clean = self.clean(Way::Ordered);
        for (number, expected) in REFUSALS {
            let fault = Fault::Refused(number);
            let mut outcome = self.run(Way::Ordered, Some(fault), Some(&clean));
            let said = outcome.said.join(" ");
            if !expected.split('*').all(|part| said.contains(part)) {
                outcome.wrong.push(format!("nobody said `{expected}`"));
            }
            self.judge(&faults::name(number), &outcome);
        }
        REFUSALS.len()
    }

    fn interruptions(&mut self) -> usize {
        let mut interrupted = 0;
        for (name, way) in WAYS {
            let clean = self.clean(way);
            let mut outcome = self.run(way, Some(Fault::Interrupted), Some(&clean));
            // Of descriptors, no more: some are still on their way out.
            let told = |outcome: &Outcome| {
                let lines = outcome.said.iter();
                let lines = lines.filter(|line| !line.starts_with("census"));
                lines.cloned().collect::<Vec<_>>()
            };
            if told(&outcome) != told(&clean) {
                let said = format!("without interruptions it said {:?}", clean.said);
                outcome.wrong.push(said);
            }
            self.judge(&format!("{name}: {:?}", outcome.injected.last), &outcome);
            interrupted += outcome.injected.count;
        }
        interrupted
    }

    fn sizes(&mut self) -> usize {
        let mut refused = 0;
        for (name, way) in WAYS {
            let clean = self.clean(way);
            let outcome = self.run(way, Some(Fault::Oversized), Some(&clean));
            self.judge(&format!("{name}: {:?}", outcome.injected.last), &outcome);
            refused += outcome.injected.count;
        }
        refused
    }

    /// Prints and counts what is wrong with an outcome.
    fn judge(&mut self, what: &str, outcome: &Outcome) {
        let share = self.share;
        for wrong in &outcome.wrong {
            println!("WRONG {share} {what}: {wrong} (said: {:?})", outcome.said);
        }
        self.wrong += usize::from(!outcome.wrong.is_empty());
    }
}

/// The numbers of the calls to try.
fn calls(seed: usize) -> impl Iterator<Item = usize> {
    let mut base = 0_usize;
    std::iter::from_fn(move || {
        let step = 1 + base.saturating_sub(EXHAUSTIVE) / 8;
        let call = base + seed % step;
        base += step;
        Some(call)
    })
}
