//! Waits for a created pod and attaches to it.

use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchProgress;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::attach::Attached;
use super::launch::Job;
use crate::cluster::Entry;
use crate::decide::{Seen, Start, start};
use crate::error::{Case, ClusterError, Meaning, Result};
use crate::facts::SERVER;
use crate::init;

/// Time reserved to report, before the caller's deadline, that no node was found.
const TIME_TO_TELL: Duration = Duration::from_secs(1);

/// Longest time without a node if the caller has no deadline.
const UNSCHEDULED: Duration = Duration::from_secs(30);

/// Longest time without a watch: an API server may restart.
const LOST: Duration = Duration::from_secs(30);

/// Longest time of refused attaches to a container that is reported as running.
const ATTACHES: Duration = Duration::from_secs(10);

/// Time that an attach in flight has after the init's end to report the reason.
const ENDED: Duration = Duration::from_secs(2);

/// The streams, or `None` if the server ended before the attach.
pub(super) type Ready = Option<Attached>;

/// Waits until the pod runs and attaches to it. The status reports a running container up to a
/// second late, so a `started` event or elapsed time triggers earlier attempts.
pub(super) async fn come_up(job: &Job, entry: &Entry, started: &Notify) -> Result<Ready> {
    let mut seen = entry.seen();
    let mut waiting = Waiting::new(job);
    let mut early = Early::new(job.plan.supervised);
    let mut refused_until = None;
    loop {
        let sign = tokio::select! {
            biased;
            start = waiting.for_start(job, &mut seen) => match start? {
                // A supervised server was not started before the attach.
                Start::Ended if job.plan.supervised => return Err(ended()),
                Start::Ended => return Ok(None),
                _ => Sign::Status,
            },
            sign = early.may_run(started) => sign,
        };
        let is_early = sign != Sign::Status;
        if sign == Sign::Time && !has_node(&seen) {
            continue;
        }
        // Watch the pod meanwhile, since an attach may hang.
        let attached = tokio::select! {
            biased;
            attached = attach(job) => attached,
            failed = waiting.for_failure(job, &mut seen) => return Err(failed),
        };
        let error = match attached {
            Ok(attached) => {
                entry.runs();
                return Ok(Some(attached));
            }
            Err(error) => error,
        };
        debug!(pod = job.name, %error, is_early, "not attached");
        if is_early {
            continue;
        }
        // The refusal may be due to the pod's end, which the watch reports a moment later.
        let refused_until = *refused_until.get_or_insert_with(|| Instant::now() + ATTACHES);
        if error.meaning == Meaning::Refused && error.case != Case::Attach
            || Instant::now() >= refused_until
        {
            return Err(error);
        }
        tokio::select! {
            _ = seen.changed() => {}
            () = sleep(Duration::from_millis(200)) => {}
        }
    }
}

fn has_node(seen: &channel::Receiver<Seen>) -> bool {
    let seen = seen.borrow();
    seen.last.as_ref().is_some_and(|pod| pod.node.is_some())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Status,
    /// A start event, which may arrive before the watch reports the node.
    Event,
    Time,
}

/// Schedule of attach attempts before the status reports a running container.
struct Early {
    next: Option<Instant>,
    pause: Duration,
}

impl Early {
    /// A busy kubelet sends events late or not at all: a few attempts with growing pauses.
    const FIRST: Duration = Duration::from_secs(1);
    const LAST: Duration = Duration::from_secs(16);

    /// Without a gate, an early attach looks like a finished one, so that attempts need an event.
    fn new(supervised: bool) -> Self {
        Self {
            next: supervised.then(|| Instant::now() + Self::FIRST),
            pause: Self::FIRST,
        }
    }

    async fn may_run(&mut self, started: &Notify) -> Sign {
        let Some(next) = self.next else {
            started.notified().await;
            return Sign::Event;
        };
        tokio::select! {
            () = started.notified() => Sign::Event,
            () = sleep_until(next) => {
                self.pause *= 2;
                self.next = (self.pause <= Self::LAST).then(|| next + self.pause);
                Sign::Time
            }
        }
    }
}

fn ended() -> ClusterError {
    init::unusable("it has ended before a client was attached")
}

fn unwatched(words: &str) -> ClusterError {
    ClusterError::refused(format!("the pod cannot be watched: {words}"))
}

async fn attach(job: &Job) -> Result<Attached> {
    let connection = job.cluster.attach(&job.name, SERVER).await?;
    let mut attached = Attached::new(connection).await;
    if job.plan.supervised {
        attached.open_gate().await?;
    }
    Ok(attached)
}

/// The wait for a running server, which can be interrupted and resumed.
struct Waiting {
    given_up: Instant,
    told: Option<String>,
    lost_since: Option<Instant>,
}

impl Waiting {
    fn new(job: &Job) -> Self {
        let given_up = job.context.deadline().map(|at| at - TIME_TO_TELL);
        Self {
            given_up: given_up.unwrap_or_else(|| Instant::now() + UNSCHEDULED),
            told: None,
            lost_since: None,
        }
    }

    /// Waits until the server is known not to start.
    async fn for_failure(&mut self, job: &Job, seen: &mut channel::Receiver<Seen>) -> ClusterError {
        loop {
            match self.for_start(job, seen).await {
                Err(failed) => return failed,
                Ok(Start::Ended) if job.plan.supervised => {
                    sleep(ENDED).await;
                    return ended();
                }
                // Without an init, the attach may have succeeded before the end.
                Ok(_) => {}
            }
            if seen.changed().await.is_err() {
                return ClusterError::cancelled();
            }
        }
    }

    /// Waits until the server runs or has ended, and reports progress to the caller. Cancel safe.
    async fn for_start(&mut self, job: &Job, seen: &mut channel::Receiver<Seen>) -> Result<Start> {
        loop {
            let lost = seen.borrow().lost.clone();
            let lost_until = match &lost {
                Some(lost) if lost.refused => {
                    return Err(unwatched(&lost.words));
                }
                Some(_) => Some(*self.lost_since.get_or_insert_with(Instant::now) + LOST),
                None => {
                    self.lost_since = None;
                    None
                }
            };
            let now = start(&seen.borrow_and_update());
            let mut unschedulable = None;
            match now {
                Start::Running | Start::Ended => return Ok(now),
                Start::Failed(failure) => return Err(failure.into_error(&job.plan.image)),
                Start::Unschedulable(words) => unschedulable = Some(words),
                Start::Wait(what) if what != self.told => {
                    if let Some(what) = &what {
                        let what = format!("{}: {what}", job.name);
                        job.context.report(&LaunchProgress::new(what));
                    }
                    self.told = what;
                }
                Start::Wait(_) => {}
            }
            tokio::select! {
                changed = seen.changed() => if changed.is_err() { return Err(ClusterError::cancelled()) },
                () = sleep_until(lost_until.unwrap_or(self.given_up)), if lost_until.is_some() => {
                    let words = lost.map(|lost| lost.words);
                    return Err(unwatched(&words.unwrap_or_default()));
                }
                () = sleep_until(self.given_up), if unschedulable.is_some() => {
                    let words = unschedulable.unwrap_or_default();
                    let words = format!("no node takes the pod: {words}");
                    return Err(ClusterError::of(Case::Unschedulable, words));
                }
            }
        }
    }
}
