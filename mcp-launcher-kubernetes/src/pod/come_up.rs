//! From a pod that was created to its streams.

use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchProgress;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::Seen;
use super::attach::Attached;
use super::decide::{Start, start};
use super::facts::SERVER;
use super::launch::Job;
use crate::cluster::Entry;
use crate::error::{ClusterError, Meaning};

/// How much of the caller's time is left for the answer that no node was found.
const TIME_TO_TELL: Duration = Duration::from_secs(1);

/// How long a pod may be without a node where the caller has no deadline.
const UNSCHEDULED: Duration = Duration::from_secs(30);

/// How long a launch goes on while its pod cannot be watched: an API server may be restarted.
const LOST: Duration = Duration::from_secs(30);

/// How long an attach may be refused by a kubelet that says that the container runs.
const ATTACHES: Duration = Duration::from_secs(10);

/// How long an attach may go on that is under way when the init has ended: it knows why.
const ENDED: Duration = Duration::from_secs(2);

/// Outcome of a pod that came up: its streams, or `None` where it ended before there were any.
pub(super) type Ready = Option<Attached>;

/// Waits until the pod runs, and attaches to it.
///
/// A kubelet writes into the status up to a second late that a container runs, and attaches to
/// it as soon as it does. So it is tried earlier where an event says that the server was
/// `started`.
pub(super) async fn come_up(
    job: &Job,
    entry: &Entry,
    started: &Notify,
) -> Result<Ready, ClusterError> {
    let mut seen = entry.seen();
    let mut waiting = Waiting::new(job);
    let mut early = Early::new(job.plan.supervised);
    let mut refused_until = None;
    loop {
        let sign = tokio::select! {
            biased;
            start = waiting.for_start(job, &mut seen) => match start? {
                Start::Ended => return ended_early(job),
                _ => Sign::Status,
            },
            sign = early.may_run(started) => sign,
        };
        let is_early = sign != Sign::Status;
        if sign == Sign::Time && !has_node(&seen) {
            continue;
        }
        // What becomes of the pod meanwhile may be all there is to know: an attach may hang.
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
        // Its end may be what refuses: the watch says so, a moment later.
        let refused_until = *refused_until.get_or_insert_with(|| Instant::now() + ATTACHES);
        if matches!(error.meaning(), Meaning::Refused if !matches!(error, ClusterError::Attach(_)))
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

/// A sign that a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Status,
    /// Its kubelet tells of its start, which may come before the watch has told of its node.
    Event,
    /// It may run by now.
    Time,
}

/// Instants at which a server may run though its kubelet has not said so.
struct Early {
    next: Option<Instant>,
    pause: Duration,
}

impl Early {
    /// A busy kubelet tells of events late, and at times of none: a few tries, ever later.
    const FIRST: Duration = Duration::from_secs(1);
    const LAST: Duration = Duration::from_secs(16);

    /// Without a gate an attach that comes too early is not told from one that ended: then
    /// there are no tries without an event.
    fn new(supervised: bool) -> Self {
        Self {
            next: supervised.then(|| Instant::now() + Self::FIRST),
            pause: Self::FIRST,
        }
    }

    /// Waits for the next.
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

/// A server that has ended before anybody was attached. A supervised one has not begun.
fn ended_early(job: &Job) -> Result<Ready, ClusterError> {
    match job.plan.supervised {
        true => Err(ended()),
        false => Ok(None),
    }
}

fn ended() -> ClusterError {
    ClusterError::Init("it has ended before anybody was attached".to_owned())
}

async fn attach(job: &Job) -> Result<Attached, ClusterError> {
    let connection = job.cluster.attach(&job.name, SERVER).await?;
    let mut attached = Attached::new(connection).await;
    if job.plan.supervised {
        attached.open_gate().await?;
    }
    Ok(attached)
}

/// The wait for a server that runs, which may be interrupted and gone on with.
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

    /// Waits until it is known that the server does not come up.
    async fn for_failure(&mut self, job: &Job, seen: &mut channel::Receiver<Seen>) -> ClusterError {
        loop {
            match self.for_start(job, seen).await {
                Err(failed) => return failed,
                Ok(Start::Ended) if job.plan.supervised => {
                    sleep(ENDED).await;
                    return ended();
                }
                // One without an init may have been attached to before it ended.
                Ok(_) => {}
            }
            if seen.changed().await.is_err() {
                return ClusterError::Cancelled;
            }
        }
    }

    /// Waits until the server runs, or has ended. Tells the caller what the kubelet does.
    /// Cancel safe.
    async fn for_start(
        &mut self,
        job: &Job,
        seen: &mut channel::Receiver<Seen>,
    ) -> Result<Start, ClusterError> {
        loop {
            let lost = seen.borrow().lost.clone();
            let lost_until = match &lost {
                Some(lost) if lost.refused => {
                    return Err(ClusterError::Unwatched(lost.words.clone()));
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
                changed = seen.changed() => if changed.is_err() { return Err(ClusterError::Cancelled) },
                () = sleep_until(lost_until.unwrap_or(self.given_up)), if lost_until.is_some() => {
                    let words = lost.map(|lost| lost.words);
                    return Err(ClusterError::Unwatched(words.unwrap_or_default()));
                }
                () = sleep_until(self.given_up), if unschedulable.is_some() => {
                    return Err(ClusterError::Unschedulable(unschedulable.unwrap_or_default()));
                }
            }
        }
    }
}
