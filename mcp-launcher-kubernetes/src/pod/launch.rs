use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::launch::{LaunchContext, LaunchProgress, LaunchedServer};
use serde::de::IgnoredAny;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::come_up::{Ready, come_up};
use super::keep::{keep, remove_secret, until_end};
use super::terminator::PodTerminator;
use super::{Known, LivePod, admitted, progress};
use crate::cluster::{Cluster, Entry, Kind, LATE_CREATE, Patience, Watcher};
use crate::decide::Seen;
use crate::error::{ClusterError, Meaning, Result};
use crate::facts::Facts;
use crate::lease::{Held, Leases};
use crate::options::Plan;
use crate::{init, labels};

/// Longest wait of a failed launch for the proof of its clean-up, which then continues in its task.
const UNDO_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Job {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) watcher: Watcher,
    pub(crate) leases: Leases,
    pub(crate) plan: Plan,
    pub(crate) name: String,
    pub(crate) launch: String,
    pub(crate) keep_alive: Duration,
    pub(crate) context: LaunchContext,
}

impl Job {
    pub(crate) fn patience(&self) -> Patience {
        let (context, name) = (self.context.clone(), self.name.clone());
        Patience::new()
            .telling(move |words| context.report(&LaunchProgress::new(format!("{name}: {words}"))))
    }
}

type Launched = Result<LaunchedServer>;

/// Launches; cancelled at any point, undoes it.
pub(crate) async fn launch(mut job: Job, cancelled: CancellationToken) -> Launched {
    let patience = job.patience().until(cancelled.clone());
    tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(ClusterError::cancelled()),
        prepared = prepare(&job, &patience) => prepared?,
    }
    // Not cancelled midway, so that a Lease that is created is also released.
    let lease = Arc::new(job.leases.hold(&patience).await?);
    if cancelled.is_cancelled() {
        lease.release().await;
        return Err(ClusterError::cancelled());
    }
    for object in job.plan.objects() {
        object["metadata"]["ownerReferences"] = lease.owner();
    }
    let entry = job.watcher.enter(&job.name);
    // Never cancelled from here on: a request in flight may take effect.
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
            Some(field) => Err(ClusterError::refused(format!(
                "something in the cluster, such as an admission webhook, has changed the pod's \
                 {field}, on which the server's lifecycle rests; exempt these pods from it"
            ))),
            None => come_up(&job, &entry, &started).await,
        }
    };
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(ClusterError::cancelled()),
        ready = coming_up => ready,
        never = progress::tell(&job, &uid, &entry, &started) => match never {},
    };
    if job.plan.secret.is_some() {
        // The secret is not needed once the container runs.
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

pub(crate) async fn prepare(job: &Job, patience: &Patience) -> Result<()> {
    job.cluster.namespace().await?;
    if job.plan.supervised {
        init::provide(&job.cluster, patience).await?;
    }
    Ok(())
}

/// Creates the secret and the pod. The name is unique: a retry finds the first attempt's pod.
async fn create(job: &Job, entry: &Entry, open: &Open, patience: &Patience) -> Result<Pod> {
    let cluster = &job.cluster;
    if let Some(secret) = &job.plan.secret {
        let create = async || {
            note(
                cluster.create::<IgnoredAny>(Kind::Secret, secret).await,
                &open.secret,
            )
        };
        match patience.answered(create).await {
            Err(error) if error.meaning != Meaning::Exists => return Err(error),
            _ => {}
        }
    }
    let create = async || note(cluster.create(Kind::Pod, &job.plan.pod).await, &open.pod);
    let error = match patience.answered(create).await {
        Ok(pod) => return Ok(pod),
        Err(error) => error,
    };
    // The watch may have seen the pod although the response was lost.
    if error.meaning != Meaning::Exists && entry.seen().borrow().last.is_none() {
        return Err(error);
    }
    let get = || cluster.get::<Pod>(Kind::Pod, &job.name);
    let pod = patience.answered(get).await?;
    let labels = pod.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(labels::LAUNCH)) == Some(&job.launch) {
        true => Ok(pod),
        false => Err(ClusterError::refused(format!(
            "a pod {} is there that is not of this launch",
            job.name
        ))),
    }
}

#[derive(Debug, Default)]
struct Open {
    secret: AtomicBool,
    pod: AtomicBool,
}

/// Records a creation that may take effect. A later refusal does not undo an earlier attempt.
fn note<T>(created: Result<T>, may_exist: &AtomicBool) -> Result<T> {
    if created.as_ref().is_err_and(ClusterError::may_come_true) {
        may_exist.store(true, Ordering::Relaxed);
    }
    created
}

/// Cleans up after a failed creation: removes the secret, and a pod that is created late.
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
                undo(cluster, name, &entry).await;
            }
        };
        tokio::join!(secret, pod);
        lease.release().await;
    });
}

/// Returns whether a pod is created late. Time counts only while the cluster can be watched.
async fn comes_true(mut seen: channel::Receiver<Seen>) -> bool {
    loop {
        let told = seen.wait_for(|seen| seen.last.is_some());
        if let Ok(told) = timeout(LATE_CREATE, told).await {
            return told.is_ok();
        }
        if seen.borrow().lost.is_none() {
            return false;
        }
        // The watch was lost: decide once it is back.
        if seen.wait_for(|seen| seen.lost.is_none()).await.is_err() {
            return false;
        }
    }
}

/// Ends what was created. The error includes the proof, if the cluster is not too slow for that.
async fn undo_now(job: Job, entry: Entry, lease: Arc<Held>) {
    let name = job.name.clone();
    let undoing = tokio::spawn(async move {
        undo(&job.cluster, &job.name, &entry).await;
        lease.release().await;
    });
    if timeout(UNDO_LIMIT, undoing).await.is_err() {
        warn!(pod = name, "a failed launch is still being undone");
    }
}

async fn undo(cluster: &Cluster, pod: &str, entry: &Entry) {
    if let Err(why) = until_end(cluster, pod, entry.seen(), None).await {
        warn!(
            pod,
            why, "the end of a pod that was not started is not proven"
        );
    }
}

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
    let mut known = pod.known.subscribe();
    let discard = pod.discard.clone();
    let terminator = Arc::new(PodTerminator { pod });
    let Some(attached) = ready else {
        let none = || tokio::io::empty();
        return LaunchedServer::new(
            tokio::io::sink(),
            none(),
            Some(Box::new(none())),
            terminator,
        );
    };
    let exited = async move {
        // An error means that the pod's tasks are gone.
        let _ = known
            .wait_for(|known| known.exit.is_some() || known.end.is_some())
            .await;
    };
    let (stdin, [stdout, stderr], task) = attached.split(discard, job.keep_alive, exited);
    tokio::spawn(task);
    LaunchedServer::new(stdin, stdout, Some(stderr), terminator)
}

#[cfg(test)]
mod tests;
