//! Finds out by trying which containment this machine allows.
//!
//! A refusal holds for the life of the process. A failure that may pass, such as a limit that was
//! reached, is reported and tried again next time.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mcp_lifecycle_core::launch::ErrorChain;

use super::Why;
use crate::cgroup::{self, Leaf};
use crate::program::protocol::{MESSAGE_MAX, Report, Stage};
use crate::program::{self, GuardianHandle, Received, SpawnGuardianError, SpawnRequest};
use crate::{identity, orphans, sys};

/// The containment that this machine allows, and why not more.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(super) guardian: Result<(), Why>,
    /// The directory below which each server gets a cgroup of its own.
    pub(super) cgroups: Result<&'static Path, Why>,
    /// `Ok` if a server can get a PID namespace of its own.
    pub(super) namespaces: Result<(), Why>,
}

/// An answer that holds, once there is one.
type Answer<T> = Option<Result<T, Why>>;

#[derive(Debug)]
struct Known {
    guardian: Answer<()>,
    cgroups: Answer<&'static Path>,
    namespaces: Answer<()>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    guardian: None,
    cgroups: None,
    namespaces: None,
});

/// The reason why something was not found.
#[derive(Debug)]
enum Failure {
    /// For as long as this process lives.
    Refused(String),
    /// This time only.
    Passing(String),
}

impl Found {
    fn without_guardian(why: Why) -> Self {
        Self {
            guardian: Err(Why::clone(&why)),
            cgroups: Err(Why::clone(&why)),
            namespaces: Err(why),
        }
    }
}

/// Returns the known answers without trying anything; `None` if one is missing.
pub(crate) fn known(namespaces: bool) -> Option<Found> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(why) = known.guardian.clone()? {
        return Some(Found::without_guardian(why));
    }
    Some(Found {
        guardian: Ok(()),
        cgroups: known.cgroups.clone()?,
        namespaces: match known.namespaces.clone() {
            None if namespaces => return None,
            answer => answer.unwrap_or_else(not_tried),
        },
    })
}

/// Returns all answers, the one on PID namespaces only if asked for.
///
/// Starts up to three guardians for servers that cannot be executed, and waits for their ends, half
/// a millisecond each. An answer that is known already is not tried again.
pub(crate) fn probe(namespaces: bool) -> Found {
    probe_by(namespaces, Trace::Recorded)
}

/// Probes without PID namespaces, for a caller that inspects the machine and has no servers:
/// nothing is recorded, and leftovers of earlier hosts are kept. If the host is killed in the
/// millisecond that this takes, it leaves an empty cgroup.
pub(crate) fn look_at_machine() -> Found {
    probe_by(false, Trace::None)
}

/// The place that records the cgroup of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// The ledger of this host.
    Recorded,
    None,
}

fn probe_by(namespaces: bool, trace: Trace) -> Found {
    static TURNS: Turns<(bool, Found)> = Turns::new();
    let answers = |(tried, _): &(bool, Found)| *tried || !namespaces;
    let ask = || {
        (
            namespaces,
            known(namespaces).unwrap_or_else(|| attempt(namespaces, trace)),
        )
    };
    TURNS.take(answers, ask).1
}

fn attempt(namespaces: bool, trace: Trace) -> Found {
    match settle(|known| &mut known.guardian, try_guardian) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return Found::without_guardian(why),
        // It may work for the server; if not, the launch reports why.
        Err(why) => {
            return Found {
                guardian: Ok(()),
                ..Found::without_guardian(why)
            };
        }
    }
    Found {
        guardian: Ok(()),
        cgroups: settle(|known| &mut known.cgroups, || try_cgroup(trace)).unwrap_or_else(Err),
        namespaces: match namespaces {
            true => settle(|known| &mut known.namespaces, try_namespace).unwrap_or_else(Err),
            false => not_tried(),
        },
    }
}

/// Runs one attempt at a time and shares its answer with all callers that wait meanwhile: on a
/// machine that is stuck, each launch waits for one attempt only.
struct Turns<T> {
    ended: AtomicU64,
    last: Mutex<Option<T>>,
}

impl<T: Clone> Turns<T> {
    const fn new() -> Self {
        Self {
            ended: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }

    /// Runs `ask`, unless another caller has meanwhile and its answer fits this question too.
    fn take(&self, answers: impl Fn(&T) -> bool, ask: impl FnOnce() -> T) -> T {
        let ended = self.ended.load(Ordering::Acquire);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| answers(last))
            && self.ended.load(Ordering::Acquire) != ended
        {
            return last.clone();
        }
        let answer = ask();
        *last = Some(answer.clone());
        self.ended.fetch_add(1, Ordering::Release);
        answer
    }
}

fn not_tried<T>() -> Result<T, Why> {
    Err(Why::from("it was not tried"))
}

/// Returns the answer, which is kept, or why there is none yet.
fn settle<T: Clone>(
    place: impl Fn(&mut Known) -> &mut Answer<T>,
    attempt: impl FnOnce() -> Result<T, Failure>,
) -> Result<Result<T, Why>, Why> {
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = place(&mut lock()).clone() {
        return Ok(answer);
    }
    let answer = match attempt() {
        Ok(there) => Ok(there),
        Err(Failure::Refused(why)) => Err(Why::from(why)),
        Err(Failure::Passing(why)) => {
            crate::sys::shielded(|| {
                tracing::debug!(why, "what this machine allows is not known yet")
            });
            return Err(Why::from(why));
        }
    };
    *place(&mut lock()) = Some(answer.clone());
    Ok(answer)
}

fn try_guardian() -> Result<(), Failure> {
    match try_one(None, false)? {
        (Stage::Exec, _) => Ok(()),
        (stage, errno) => Err(refused_at(stage, errno)),
    }
}

/// Has the child of a guardian join a cgroup, and removes the cgroup.
fn try_cgroup(trace: Trace) -> Result<&'static Path, Failure> {
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
        Some(server) if trace == Trace::Recorded => orphans::register(server, true)
            .map_err(|error| failed("it cannot be written down", &error))?,
        _ => None,
    };
    let name = cgroup::new_name(server.as_ref())
        .map_err(|error| failed("it cannot be given a name", &error))?;
    let joined = join(parent, &name);
    if let Some(entry) = entry {
        entry.end();
    }
    joined.map(|()| parent)
}

fn join(parent: &Path, name: &str) -> Result<(), Failure> {
    let leaf = Leaf::create(parent, name)
        .map_err(|error| failed("none can be made below this process's own", &error))?;
    match try_one(Some(&leaf), false)? {
        (Stage::Exec, _) => Ok(()),
        (stage, errno) => Err(refused_at(stage, errno)),
    }
}

/// Has a guardian create a PID namespace, which ends at once.
fn try_namespace() -> Result<(), Failure> {
    match try_one(None, true)? {
        (Stage::Exec, _) => Ok(()),
        (stage, errno) => Err(refused_at(stage, errno)),
    }
}

fn refused_at(stage: Stage, errno: i32) -> Failure {
    failed(
        super::spawn::stage_name(stage),
        &io::Error::from_raw_os_error(errno),
    )
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
            // Another part of this process reaped it before it could be held.
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

/// Starts a guardian for a server that cannot be executed, and waits for its end. Returns the stage
/// that the server reached, and the error there.
fn try_one(leaf: Option<&Leaf>, pid_namespace: bool) -> Result<(Stage, i32), Failure> {
    /// The limit for a machine that is stuck: the guardian ends by itself within a millisecond.
    const LIMIT: Duration = Duration::from_secs(5);
    const ATTEMPTS: u32 = 10;
    let null = File::open("/dev/null").map_err(|error| failed("/dev/null", &error))?;
    let doors = leaf
        .map(Leaf::open)
        .transpose()
        .map_err(|error| failed("a new one cannot be opened", &error))?;
    let request = SpawnRequest {
        cgroup_leaf: doors.as_ref().map(|doors| doors.directory.as_fd()),
        cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
        cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
        pid_namespace,
        ..SpawnRequest::nothing(null.as_fd())
    };
    // A thread of this process that reaps every child may reap this one before it can be held. That
    // proves nothing about the machine.
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
    // Where SIGCHLD is ignored, or another thread reaps every child, it is reaped already. It has
    // ended all the same, and its report is in the socket.
    if let Err(error) = guardian.try_reap() {
        crate::sys::shielded(|| tracing::debug!(%error, "the probe was reaped by somebody else"));
    }
    last_stage(&guardian).map_err(|error| failed("the probe", &error))
}

/// Returns the stage at which the server of a guardian that has exited failed.
fn last_stage(guardian: &GuardianHandle) -> io::Result<(Stage, i32)> {
    let mut buffer = [0; MESSAGE_MAX];
    match guardian.receive(&mut buffer)? {
        Received::Report(Report::ExecFailed { stage, errno }) => Ok((stage, errno)),
        _ => Err(io::Error::other("the guardian did not report")),
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
        let (turns, asked, begun) = (Turns::new(), AtomicUsize::new(0), Barrier::new(2));
        let waiting = AtomicUsize::new(0);
        let ask = || {
            // The other callers arrive during this attempt.
            if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                while waiting.load(Ordering::SeqCst) < WAITING {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(50));
            }
            7
        };
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(turns.take(|_| true, ask), 7));
            begun.wait();
            for _ in 0..WAITING {
                scope.spawn(|| {
                    waiting.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(turns.take(|_| true, ask), 7);
                });
            }
        });
        let together = asked.load(Ordering::SeqCst);
        assert!(together < WAITING, "{together} of {} asked", WAITING + 1);
        turns.take(|_| true, ask);
        assert_eq!(
            asked.load(Ordering::SeqCst),
            together + 1,
            "who comes later asks"
        );
        turns.take(|_| false, ask);
        assert_eq!(
            asked.load(Ordering::SeqCst),
            together + 2,
            "another question"
        );
    }
}
