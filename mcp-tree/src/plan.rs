//! The containment of one server by a guardian: the best that this machine allows, found out by
//! trying. A refusal holds for the life of the process; a failure that may pass is tried again.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, ErrorChain, Reach};
use mcp_lifecycle_core::lock::Lock;

use crate::cgroup::{self, Leaf};
use crate::program::protocol::Stage;
use crate::program::{self, Outcome, SpawnGuardianError, SpawnRequest};
use crate::{hardened, identity, orphans, sys};

/// Finds out which containment a wrapped server has on this machine, without a record. Blocks for
/// some milliseconds.
pub fn containment() -> Containment {
    match Plan::best(false, false) {
        Ok(plan) => plan.containment(),
        Err(why) => {
            Containment::new("nothing", Reach::Nothing).fallback(format!("no guardian: {why}"))
        }
    }
}

/// A guardian, and what it has beside.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory below which it gets a cgroup of its own, or why it gets none.
    pub cgroups: Result<&'static Path, Why>,
    pub pid_namespace: bool,
    /// Set if the server is kept away from its guardian and its host.
    pub hardened: bool,
    /// The paths below which it may write; `None` for all.
    pub writable: Option<Vec<PathBuf>>,
    /// The time that a server has to end by itself once the host is gone.
    pub grace: Duration,
    /// Why it is not the plan that was asked for.
    fallback: Option<String>,
}

pub type Why = Arc<str>;

static GUARDIAN: Question<()> = Question::new();
static CGROUPS: Question<&Path> = Question::new();
static NAMESPACES: Question<()> = Question::new();

#[derive(Debug)]
enum Failure {
    Refused(String),
    Passing(String),
}

impl Plan {
    /// Returns the best plan that this machine allows, or why it has no guardian. For each answer
    /// that is missing, starts a guardian that ends at once and waits for it, half a millisecond.
    /// Without a record, for a caller that has no servers, a host that is killed meanwhile leaves an
    /// empty cgroup.
    pub fn best(with_namespace: bool, is_recorded: bool) -> Result<Self, Why> {
        if let Err(why) = GUARDIAN.ask(|| try_one(None, false)) {
            // It may work for the server; if not, the launch reports why.
            GUARDIAN.known().unwrap_or(Ok(()))?;
            return Ok(Self::new(
                Err(Why::clone(&why)),
                with_namespace.then_some(Err(why)),
            ));
        }
        let cgroups = CGROUPS.ask(|| try_cgroup(is_recorded));
        let namespace = with_namespace.then(|| NAMESPACES.ask(|| try_one(None, true)));
        Ok(Self::new(cgroups, namespace))
    }

    /// Returns the same from known answers, without trying anything; `None` if one is missing.
    pub fn known(with_namespace: bool) -> Option<Result<Self, Why>> {
        if let Err(why) = GUARDIAN.known()? {
            return Some(Err(why));
        }
        let namespace = match with_namespace {
            true => Some(NAMESPACES.known()?),
            false => None,
        };
        Some(Ok(Self::new(CGROUPS.known()?, namespace)))
    }

    /// Creates a plan. `namespace` is the answer on a PID namespace, if one is asked for.
    pub(crate) fn new(
        cgroups: Result<&'static Path, Why>,
        namespace: Option<Result<(), Why>>,
    ) -> Self {
        let refused = namespace.as_ref().and_then(|answer| answer.as_ref().err());
        Self {
            cgroups,
            pid_namespace: matches!(namespace, Some(Ok(()))),
            hardened: false,
            writable: None,
            grace: Duration::ZERO,
            fallback: refused.map(|why| format!("no PID namespace: {why}")),
        }
    }

    /// Returns the promise of this plan. In a namespace a cgroup would add nothing, so its absence
    /// is no fallback.
    pub fn containment(&self) -> Containment {
        let mut containment = self.unrestricted();
        let Some(why) = hardened::refusal(self.hardened, self.writable.is_some()) else {
            containment.is_hardened = self.hardened;
            containment.writes_are_limited = self.writable.is_some();
            return containment;
        };
        match containment.fallback.clone() {
            None => containment.fallback(why),
            Some(before) => containment.fallback(format!("{before}; {why}")),
        }
    }

    fn unrestricted(&self) -> Containment {
        if self.pid_namespace {
            return Containment::new("PID namespace", Reach::Container)
                .host_death(Reach::Container)
                .atomic_placement();
        }
        let mechanism = match self.cgroups {
            Ok(_) => "guardian and cgroup",
            Err(_) => "guardian",
        };
        let containment = Containment::new(mechanism, Reach::Tree)
            .host_death(Reach::Tree)
            .atomic_placement();
        let without_cgroup = self.cgroups.as_ref().err();
        let reasons = [
            self.fallback.clone(),
            without_cgroup.map(|why| format!("no cgroup for each server: {why}")),
            identity::refusal().map(|why| {
                format!("no mark and no ledger, so `reap_orphans` finds none of its servers: {why}")
            }),
        ];
        match reasons
            .into_iter()
            .flatten()
            .reduce(|one, other| format!("{one}; {other}"))
        {
            None => containment,
            Some(reasons) => containment.fallback(reasons),
        }
    }
}

/// A question to this machine, tried by one caller at a time. Its answer is kept. A failure that
/// may pass is only shared with the callers that have waited for the attempt.
struct Question<T> {
    answer: OnceLock<Result<T, Why>>,
    failures: AtomicU64,
    last_failure: Lock<Option<Why>>,
}

impl<T: Clone> Question<T> {
    const fn new() -> Self {
        Self {
            answer: OnceLock::new(),
            failures: AtomicU64::new(0),
            last_failure: Lock::new(None),
        }
    }

    fn known(&self) -> Option<Result<T, Why>> {
        self.answer.get().cloned()
    }

    fn ask(&self, attempt: impl FnOnce() -> Result<T, Failure>) -> Result<T, Why> {
        if let Some(answer) = self.known() {
            return answer;
        }
        let failures = self.failures.load(Ordering::Acquire);
        let mut last_failure = self.last_failure.lock();
        if let Some(answer) = self.known() {
            return answer;
        }
        if let Some(why) = &*last_failure
            && self.failures.load(Ordering::Acquire) != failures
        {
            return Err(Why::clone(why));
        }
        let answer = match attempt() {
            Ok(there) => Ok(there),
            Err(Failure::Refused(why)) => Err(Why::from(why)),
            Err(Failure::Passing(why)) => {
                sys::shielded(|| {
                    tracing::debug!(why, "what this machine allows is not known yet");
                });
                let why = last_failure.insert(Why::from(why));
                self.failures.fetch_add(1, Ordering::Release);
                return Err(Why::clone(why));
            }
        };
        self.answer.get_or_init(|| answer).clone()
    }
}

fn try_cgroup(is_recorded: bool) -> Result<&'static Path, Failure> {
    let parent = cgroup::parent().map_err(|error| match sys::is_shortage(&error) {
        true => failed("this process's own cannot be told", &error),
        false => Failure::Refused(format!("this process's own cannot be told: {error}")),
    })?;
    let server = match identity::new_server() {
        Err(error) if sys::is_shortage(&error) => {
            return Err(failed("this process cannot be identified", &error));
        }
        server => server.ok(),
    };
    let entry = match &server {
        Some(server) if is_recorded => orphans::register(server, true)
            .map_err(|error| failed("it cannot be written down", &error))?,
        _ => None,
    };
    let joined = Leaf::create(parent, server.as_ref())
        .map_err(|error| failed("none can be made below this process's own", &error))
        .and_then(|leaf| try_one(Some(&leaf), false));
    if let Some(entry) = entry {
        entry.end();
    }
    joined.map(|()| parent)
}

fn failed(what: &str, error: &io::Error) -> Failure {
    let why = format!("{what}: {error}");
    match error.raw_os_error() {
        Some(errno) if !is_passing(errno) => Failure::Refused(why),
        _ => Failure::Passing(why),
    }
}

/// Returns whether this error means "not now" rather than "not here".
fn is_passing(errno: i32) -> bool {
    matches!(
        errno,
        libc::EAGAIN
            | libc::EBUSY
            | libc::EINTR
            | libc::EIO
            | libc::EMFILE
            | libc::ENFILE
            | libc::ENOBUFS
            | libc::ENOMEM
            | libc::ENOSPC
            | libc::ESRCH
    )
}

impl From<SpawnGuardianError> for Failure {
    fn from(error: SpawnGuardianError) -> Self {
        match error {
            SpawnGuardianError::Failed { action, source } => failed(action, &source),
            refused => Self::Refused(ErrorChain(&refused).to_string()),
        }
    }
}

/// Has a guardian start a server that cannot be executed, in this cgroup or a PID namespace, and
/// waits for its end.
fn try_one(leaf: Option<&Leaf>, pid_namespace: bool) -> Result<(), Failure> {
    /// The limit for a machine that is stuck.
    const LIMIT: Duration = Duration::from_secs(5);
    const ATTEMPTS: u32 = 10;
    let null = File::open("/dev/null").map_err(|error| failed("/dev/null", &error))?;
    let doors = leaf
        .map(Leaf::open)
        .transpose()
        .map_err(|error| failed("a new one cannot be opened", &error))?;
    let request = SpawnRequest {
        pid_namespace,
        ..SpawnRequest::nothing(null.as_fd()).in_cgroup(doors.as_ref())
    };
    // Reaped by another thread before it could be held: no answer about the machine.
    let is_reaped = |error: &SpawnGuardianError| matches!(error, SpawnGuardianError::Failed { source, .. } if source.raw_os_error() == Some(libc::ESRCH));
    let mut spawned = program::spawn(request);
    for _ in 1..ATTEMPTS {
        if spawned.as_ref().is_err_and(is_reaped) {
            spawned = program::spawn(request);
        }
    }
    let guardian = spawned?;
    if !guardian.wait_exit(LIMIT) {
        return Err(Failure::Passing("the probe takes too long".to_owned()));
    }
    // Where another part of the host reaps every child, its report is in the socket all the same.
    if let Err(error) = guardian.try_reap() {
        sys::shielded(|| tracing::debug!(%error, "another part of the host has reaped the probe"));
    }
    match guardian.outcome(Duration::ZERO) {
        Outcome::Failed(Stage::Exec, _) => Ok(()),
        Outcome::Failed(stage, errno) => {
            let error = io::Error::from_raw_os_error(errno);
            Err(failed(stage.failure(), &error))
        }
        _ => Err(Failure::Passing("the probe did not report".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[test]
    fn those_who_wait_for_an_answer_do_not_ask_again() {
        const WAITING: usize = 8;
        let (question, begun) = (Question::<()>::new(), Barrier::new(2));
        let (asked, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let attempt = || {
            // The other callers arrive during this attempt.
            if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                while waiting.load(Ordering::SeqCst) < WAITING {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(50));
            }
            Err(Failure::Passing("EMFILE".to_owned()))
        };
        let ask = || assert_eq!(&*question.ask(attempt).unwrap_err(), "EMFILE");
        thread::scope(|scope| {
            scope.spawn(ask);
            begun.wait();
            for _ in 0..WAITING {
                scope.spawn(|| {
                    waiting.fetch_add(1, Ordering::SeqCst);
                    ask();
                });
            }
        });
        let together = asked.load(Ordering::SeqCst);
        assert!(together < WAITING, "{together} of {} asked", WAITING + 1);
        ask();
        assert_eq!(asked.load(Ordering::SeqCst), together + 1, "a later caller");
        assert_eq!(question.known(), None);
    }

    #[test]
    fn a_refusal_is_an_answer_and_is_kept() {
        let question = Question::<()>::new();
        let refused = question.ask(|| Err(Failure::Refused("EPERM".to_owned())));
        assert_eq!(&*refused.unwrap_err(), "EPERM");
        assert!(question.ask(|| Ok(())).is_err() && question.known().is_some());
    }
}
