//! From a plan to a running server, in a task that nobody can abandon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::launch::{LaunchContext, LaunchProgress, LaunchedServer};
use mcp_lifecycle_host::output::Output;
use tokio::sync::{Notify, oneshot, watch as channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::attach::Streams;
use super::come_up::{Ready, come_up};
use super::decide::End;
use super::facts::Facts;
use super::keep::{keep, remove_secret, undo};
use super::terminator::PodTerminator;
use super::{Known, LivePod, Seen, admitted, progress};
use crate::cluster::{Cluster, Entry, Kind, Patience, Watcher};
use crate::error::{ClusterError, Meaning};
use crate::lease::{Held, Leases};
use crate::options::Plan;
use crate::{control, init, labels};

/// How long a failed launch waits for the proof that nothing is left, before it reports the
/// failure and leaves the rest to its task.
const UNDO_LIMIT: Duration = Duration::from_secs(10);

/// How long a create whose answer was lost may still come true: an API server gives a request
/// a minute.
pub(crate) const LATE_CREATE: Duration = Duration::from_secs(75);

/// Input of one launch.
pub(crate) struct Job {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) watcher: Watcher,
    pub(crate) leases: Leases,
    pub(crate) plan: Plan,
    pub(crate) name: String,
    /// The label that tells this launch from all others.
    pub(crate) launch: String,
    /// How often the session is kept alive.
    pub(crate) keep_alive: Duration,
    pub(crate) context: LaunchContext,
}

impl Job {
    /// One time for all requests of the launch; its caller is told why they take it.
    pub(crate) fn patience(&self) -> Patience {
        let (context, name) = (self.context.clone(), self.name.clone());
        Patience::new()
            .telling(move |words| context.report(&LaunchProgress::new(format!("{name}: {words}"))))
    }
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
    let patience = job.patience().until(cancelled.clone());
    tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(ClusterError::Cancelled),
        prepared = prepare(&job, &patience) => prepared?,
    }
    // Not interrupted: what is created is held, and so given back.
    let lease = Arc::new(job.leases.hold(&patience).await?);
    if cancelled.is_cancelled() {
        lease.release().await;
        return Err(ClusterError::Cancelled);
    }
    for object in job.plan.objects() {
        object["metadata"]["ownerReferences"] = lease.owner();
    }
    let entry = job.watcher.enter(&job.name);
    // From here on nothing may interrupt: a request that was sent may come true.
    let open = Open::default();
    let created = create(&job, &entry, &open, &patience).await;
    let pod = match created {
        Ok(pod) => pod,
        Err(error) => {
            not_created(job, entry, lease, open);
            return Err(error);
        }
    };
    let changed = admitted::changed(&job.plan.pod, &pod);
    let is_watched = admitted::is_selected(&job.plan.pod, &pod);
    let facts = Facts::of(pod);
    let uid = facts.uid.clone();
    entry.exists(facts);
    if !is_watched {
        entry.look_for();
    }
    let started = Notify::new();
    let coming_up = async {
        match changed {
            Some(field) => Err(ClusterError::Changed(field)),
            None => come_up(&job, &entry, &started).await,
        }
    };
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(ClusterError::Cancelled),
        ready = coming_up => ready,
        never = progress::tell(&job, &uid, &entry, &started) => match never {},
    };
    if job.plan.secret.is_some() {
        // What a container is made with is needed no more once it runs.
        let (cluster, name) = (Arc::clone(&job.cluster), job.name.clone());
        let late = open.secret.into_inner();
        tokio::spawn(async move { remove_secret(&cluster, &name, late).await });
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

/// Sees to what all launches need: a connection, and the program of the init.
pub(crate) async fn prepare(job: &Job, patience: &Patience) -> Result<(), ClusterError> {
    job.cluster.namespace().await?;
    if job.plan.supervised {
        init::provide(&job.cluster, patience).await?;
    }
    Ok(())
}

/// Creates the secret and the pod. The name is ours alone, so that a create whose answer was
/// lost is told by the next try.
async fn create(
    job: &Job,
    entry: &Entry,
    open: &Open,
    patience: &Patience,
) -> Result<Pod, ClusterError> {
    let cluster = &job.cluster;
    if let Some(secret) = &job.plan.secret {
        let create = async || note(cluster.create(Kind::Secret, secret).await, &open.secret);
        match patience.answered(create).await {
            Err(error) if error.meaning() != Meaning::Exists => return Err(error),
            _ => {}
        }
    }
    let create = async || note(cluster.created(Kind::Pod, &job.plan.pod).await, &open.pod);
    let error = match patience.answered(create).await {
        Ok(pod) => return Ok(pod),
        Err(error) => error,
    };
    // The watch may know better than an answer that was lost.
    if error.meaning() != Meaning::Exists && entry.seen().borrow().last.is_none() {
        return Err(error);
    }
    let get = || cluster.get::<Pod>(Kind::Pod, &job.name);
    let pod = patience.answered(get).await?;
    let labels = pod.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(labels::LAUNCH)) == Some(&job.launch) {
        true => Ok(pod),
        false => Err(ClusterError::Stranger(job.name.clone())),
    }
}

/// The creates of a launch that may come true, or have, whatever was answered since.
#[derive(Debug, Default)]
struct Open {
    secret: AtomicBool,
    pod: AtomicBool,
}

/// Takes note of a create that may come true. Of any attempt: the refusal of a later one says
/// nothing about it.
fn note<T>(created: Result<T, ClusterError>, may_exist: &AtomicBool) -> Result<T, ClusterError> {
    if created.as_ref().is_err_and(ClusterError::may_come_true) {
        may_exist.store(true, Ordering::Relaxed);
    }
    created
}

/// A create that failed leaves a secret; one that nobody has answered may still come true.
fn not_created(job: Job, entry: Entry, lease: Arc<Held>, open: Open) {
    tokio::spawn(async move {
        let (cluster, name) = (&*job.cluster, &*job.name);
        let late = open.secret.into_inner();
        let secret = async {
            if job.plan.secret.is_some() {
                remove_secret(cluster, name, late).await;
            }
        };
        let pod = async {
            if open.pod.into_inner() && comes_true(entry.seen()).await {
                report(name, undo(cluster, name, entry.seen()).await);
            }
        };
        tokio::join!(secret, pod);
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
        begun: Instant::now(),
        force: CancellationToken::new(),
        again: Notify::new(),
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
    let (streams, task) = attached.split(discard, job.keep_alive, exited);
    tokio::spawn(task);
    let Streams {
        stdin,
        stdout,
        stderr,
    } = streams;
    LaunchedServer::new(stdin, stdout, Some(Box::new(stderr)), terminator)
}

#[cfg(test)]
mod tests;
