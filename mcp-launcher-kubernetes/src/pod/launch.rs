//! From a plan to a running server, in a task that nobody can abandon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchContext, LaunchProgress, LaunchedServer};
use tokio::sync::{oneshot, watch as channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::attach::{Attached, Output, Streams};
use super::decide::{End, Start, start};
use super::facts::{Facts, SERVER};
use super::keep::{keep, remove_secret, undo};
use super::terminator::PodTerminator;
use super::{Known, LivePod, Seen};
use crate::cluster::{Cluster, Entry, Kind, Watcher, answered};
use crate::error::{ClusterError, Meaning};
use crate::lease::{Held, Leases};
use crate::options::Plan;
use crate::{control, init};

/// How long a failed launch waits for the proof that nothing is left, before it reports the
/// failure and leaves the rest to its task.
const UNDO_LIMIT: Duration = Duration::from_secs(10);

/// How long a create whose answer was lost may still come true: an API server gives a request
/// a minute.
const LATE_CREATE: Duration = Duration::from_secs(75);

/// How much of the caller's time is left for the answer that no node was found.
const TIME_TO_TELL: Duration = Duration::from_secs(1);

/// How long a pod may be without a node where the caller has no deadline.
const UNSCHEDULED: Duration = Duration::from_secs(30);

/// How long a launch goes on while its pod cannot be watched: an API server may be restarted.
const LOST: Duration = Duration::from_secs(30);

/// How long an attach may be refused by a kubelet that says that the container runs.
const ATTACHES: Duration = Duration::from_secs(10);

/// All that one launch needs.
pub(crate) struct Job {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) watcher: Watcher,
    pub(crate) leases: Leases,
    pub(crate) plan: Plan,
    pub(crate) name: String,
    /// The label that tells this launch from all others.
    pub(crate) launch: String,
    pub(crate) context: LaunchContext,
}

/// Cancels a launch when its caller goes away.
pub(crate) struct Cancel {
    _guard: DropGuard,
}

type Launched = Result<LaunchedServer, ClusterError>;

/// Starts the launch on the control thread. When the receiver is dropped, or the guard is, it
/// is undone, at whatever point it is.
pub(crate) fn launch(job: Job) -> std::io::Result<(Cancel, oneshot::Receiver<Launched>)> {
    let cancelled = CancellationToken::new();
    let guard = cancelled.clone().drop_guard();
    let (sender, receiver) = oneshot::channel();
    control::spawn(async move {
        let outcome = run(job, &cancelled).await;
        // A server that nobody takes any more is killed by its own drop.
        drop(sender.send(outcome));
    })?;
    Ok((Cancel { _guard: guard }, receiver))
}

async fn run(mut job: Job, cancelled: &CancellationToken) -> Launched {
    tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(ClusterError::Cancelled),
        prepared = prepare(&job) => prepared?,
    }
    let lease = tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(ClusterError::Cancelled),
        lease = job.leases.hold() => Arc::new(lease?),
    };
    for object in job.plan.objects() {
        object["metadata"]["ownerReferences"] = lease.owner();
    }
    let entry = job.watcher.enter(&job.name);
    // From here on nothing may interrupt: a request that was sent may come true.
    let may_exist = AtomicBool::new(false);
    let created = create(&job, &entry, &may_exist).await;
    let facts = match created {
        Ok(facts) => facts,
        Err(error) => {
            not_created(job, entry, lease, may_exist.into_inner());
            return Err(error);
        }
    };
    let uid = facts.uid.clone();
    entry.exists(facts);
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(ClusterError::Cancelled),
        ready = come_up(&job, &entry) => ready,
    };
    if job.plan.secret.is_some() {
        // What a container is made with is needed no more once it runs.
        let (cluster, name) = (Arc::clone(&job.cluster), job.name.clone());
        tokio::spawn(async move { remove_secret(&cluster, &name).await });
    }
    match result {
        Ok(attached) => Ok(begin(job, entry, lease, uid, attached)),
        Err(error) => {
            debug!(pod = job.name, %error, "launch undone");
            undo_now(job, entry, lease).await;
            Err(error)
        }
    }
}

async fn prepare(job: &Job) -> Result<(), ClusterError> {
    job.cluster.namespace().await?;
    if job.plan.supervised {
        init::provide(&job.cluster).await?;
    }
    Ok(())
}

/// Creates the secret and the pod. The name is ours alone, so that a create whose answer was
/// lost is told by the next try.
async fn create(job: &Job, entry: &Entry, may_exist: &AtomicBool) -> Result<Facts, ClusterError> {
    let cluster = &job.cluster;
    if let Some(secret) = &job.plan.secret {
        let created = answered(crate::PATIENCE, || cluster.create(Kind::Secret, secret)).await;
        match created {
            Err(error) if error.meaning() != Meaning::Conflict => return Err(error),
            _ => {}
        }
    }
    let create = async || {
        let created = cluster.created(Kind::Pod, &job.plan.pod).await;
        // Of any attempt: the refusal of a later one says nothing about it.
        if let Err(error) = &created
            && matches!(
                error.meaning(),
                Meaning::Unheard | Meaning::Conflict | Meaning::Busy(_)
            )
        {
            may_exist.store(true, Ordering::Relaxed);
        }
        created
    };
    match answered(crate::PATIENCE, create).await.map(Facts::of) {
        Err(error) if error.meaning() == Meaning::Conflict => {
            let get = || cluster.get(Kind::Pod, &job.name);
            let facts = Facts::of(answered(crate::PATIENCE, get).await?);
            match facts.launch.as_deref() == Some(&job.launch) {
                true => Ok(facts),
                false => Err(ClusterError::Stranger(job.name.clone())),
            }
        }
        Err(error) => {
            // The watch may know better than the answer that was lost.
            let seen = entry.seen().borrow().last.clone();
            seen.ok_or(error)
        }
        created => created,
    }
}

/// A create that failed leaves a secret; one that nobody has answered may still come true.
fn not_created(job: Job, entry: Entry, lease: Arc<Held>, may_exist: bool) {
    tokio::spawn(async move {
        if may_exist && comes_true(entry.seen()).await {
            report(&job.name, undo(&job.cluster, &job.name, entry.seen()).await);
        }
        if job.plan.secret.is_some() {
            remove_secret(&job.cluster, &job.name).await;
        }
        lease.release().await;
    });
}

/// Whether a create comes true late. Time counts only while the cluster can be watched.
async fn comes_true(mut seen: channel::Receiver<Seen>) -> bool {
    loop {
        let told = seen.wait_for(|seen| seen.last.is_some());
        if let Ok(told) = timeout(LATE_CREATE, told).await {
            return told.is_ok();
        }
        if seen.borrow().lost.is_none() {
            return false;
        }
        // Nobody was heard: what is there is seen once somebody is.
        if seen.wait_for(|seen| seen.lost.is_none()).await.is_err() {
            return false;
        }
    }
}

/// Ends what was created. The proof belongs to the failure; a cluster that cannot give it in
/// time is asked by a task of its own.
async fn undo_now(job: Job, entry: Entry, lease: Arc<Held>) {
    let name = job.name.clone();
    let undoing = tokio::spawn(async move {
        report(&job.name, undo(&job.cluster, &job.name, entry.seen()).await);
        lease.release().await;
    });
    if timeout(UNDO_LIMIT, undoing).await.is_err() {
        warn!(pod = name, "a failed launch is still being undone");
    }
}

fn report(pod: &str, end: End) {
    if let End::Unproven(why) = end {
        warn!(
            pod,
            why, "the end of a pod that was not started is not proven"
        );
    }
}

/// What came of a pod that came up: its streams, or how it ended before there were any.
type Ready = Option<Attached>;

/// Waits until the pod runs, and attaches to it.
async fn come_up(job: &Job, entry: &Entry) -> Result<Ready, ClusterError> {
    let mut seen = entry.seen();
    wait_for_start(job, &mut seen).await?;
    let refused_until = Instant::now() + ATTACHES;
    loop {
        let is_running = start(&seen.borrow_and_update()) == Start::Running;
        if !is_running && wait_for_start(job, &mut seen).await? == Start::Ended {
            return ended_early(job);
        }
        let error = match attach(job).await {
            Ok(attached) => return Ok(Some(attached)),
            Err(error) => error,
        };
        // Its end may be what refuses: the watch says so, a moment later.
        if matches!(error.meaning(), Meaning::Refused if !matches!(error, ClusterError::Attach(_)))
            || Instant::now() >= refused_until
        {
            return Err(error);
        }
        debug!(pod = job.name, %error, "attaching again");
        tokio::select! {
            _ = seen.changed() => {}
            () = sleep(Duration::from_millis(200)) => {}
        }
    }
}

/// A server that has ended before anybody was attached. A supervised one has not begun.
fn ended_early(job: &Job) -> Result<Ready, ClusterError> {
    match job.plan.supervised {
        true => Err(broken_init()),
        false => Ok(None),
    }
}

fn broken_init() -> ClusterError {
    ClusterError::Init("it has ended before anybody was attached".to_owned())
}

async fn attach(job: &Job) -> Result<Attached, ClusterError> {
    let connection = job.cluster.attach(&job.name, SERVER).await?;
    let mut attached = Attached::new(connection);
    if job.plan.supervised {
        attached.open_gate().await?;
    }
    Ok(attached)
}

/// Waits until the server runs, or has ended. Tells the caller what the kubelet does.
async fn wait_for_start(
    job: &Job,
    seen: &mut channel::Receiver<Seen>,
) -> Result<Start, ClusterError> {
    let given_up = job.context.deadline().map(|at| at - TIME_TO_TELL);
    let given_up = given_up.unwrap_or_else(|| Instant::now() + UNSCHEDULED);
    let mut told = None;
    let mut lost_since = None;
    loop {
        let lost = seen.borrow().lost.clone();
        let lost_until = match &lost {
            Some(lost) if lost.refused => return Err(ClusterError::Unwatched(lost.words.clone())),
            Some(_) => Some(*lost_since.get_or_insert_with(Instant::now) + LOST),
            None => {
                lost_since = None;
                None
            }
        };
        let now = start(&seen.borrow_and_update());
        let mut unschedulable = None;
        match now {
            Start::Running | Start::Ended => return Ok(now),
            Start::Failed(failure) => return Err(failure.into_error(&job.plan.image)),
            Start::Unschedulable(words) => unschedulable = Some(words),
            Start::Wait(what) if what != told => {
                if let Some(what) = &what {
                    let what = format!("{}: {what}", job.name);
                    job.context.report(&LaunchProgress::new(what));
                }
                told = what;
            }
            Start::Wait(_) => {}
        }
        tokio::select! {
            changed = seen.changed() => if changed.is_err() { return Err(ClusterError::Cancelled) },
            () = sleep_until(lost_until.unwrap_or(given_up)), if lost_until.is_some() => {
                let words = lost.map(|lost| lost.words);
                return Err(ClusterError::Unwatched(words.unwrap_or_default()));
            }
            () = sleep_until(given_up), if unschedulable.is_some() => {
                return Err(ClusterError::Unschedulable(unschedulable.unwrap_or_default()));
            }
        }
    }
}

/// The server is there: its owner, its streams, and the tasks that keep them.
fn begin(job: Job, entry: Entry, lease: Arc<Held>, uid: String, ready: Ready) -> LaunchedServer {
    let pod = Arc::new(LivePod {
        name: job.name,
        uid,
        cluster: job.cluster,
        entry,
        supervised: job.plan.supervised,
        grace: job.plan.grace,
        lease,
        known: channel::Sender::new(Known::default()),
        force: CancellationToken::new(),
        discard: CancellationToken::new(),
    });
    tokio::spawn(keep(Arc::clone(&pod)));
    let mut known = pod.known();
    let discard = pod.discard.clone();
    let terminator = Arc::new(PodTerminator::new(pod));
    let Some(attached) = ready else {
        let (stdout, stderr) = (Output::ended(), Box::new(Output::ended()));
        return LaunchedServer::new(tokio::io::sink(), stdout, Some(stderr), terminator);
    };
    let exited = async move {
        // Or nobody is left to learn it.
        let _ = known
            .wait_for(|known| known.exit.is_some() || known.end.is_some())
            .await;
    };
    let (streams, task) = attached.split(discard, exited);
    tokio::spawn(task);
    let Streams {
        stdin,
        stdout,
        stderr,
    } = streams;
    LaunchedServer::new(stdin, stdout, Some(Box::new(stderr)), terminator)
}
