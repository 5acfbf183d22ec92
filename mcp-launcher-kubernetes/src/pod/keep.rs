//! Watches a running pod until its end is proven or cannot be proven any more.

use std::sync::Arc;

use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::LivePod;
use crate::cluster::{Cluster, Deletion, Kind, LATE_CREATE, Patience, Pauses};
use crate::decide::{End, Seen, end};
use crate::error::{ClusterError, Meaning};
use crate::facts::Facts;

/// The grace of a forced end, in seconds. The kubelet raises it to 2; with 0 the object would be
/// deleted at once and the process killed some time later.
pub(super) const FORCED: u32 = 1;

/// Keeps the pod until its end.
pub(super) async fn keep(pod: Arc<LivePod>) {
    let end = until_end(&pod).await;
    // Released even without proof: the Lease is not renewed for a lost pod.
    Arc::clone(&pod.lease).release().await;
    pod.learn(|known| match end {
        Ok(evidence) => {
            debug!(pod = pod.name, "pod gone");
            known.exit.get_or_insert(ExitStatus::Unknown);
            known.end = Some(Ok(evidence));
        }
        Err(why) => {
            warn!(pod = pod.name, why, "the end of a pod is not proven");
            known.end = Some(Err(why));
        }
    });
}

async fn until_end(pod: &LivePod) -> Result<&'static str, String> {
    let mut seen = pod.entry.seen();
    let mut ordered = None;
    loop {
        let (now, kept, exit) = {
            let seen = seen.borrow_and_update();
            let exit = seen.last.as_ref().and_then(Facts::exit);
            (end(&seen), is_kept(&seen), exit)
        };
        // The exit may first be reported together with the deletion.
        if let Some(exit) = exit {
            pod.learn(|known| known.exit = Some(exit));
        }
        let grace = match now {
            End::Gone(evidence) => return Ok(evidence),
            End::Unproven(why) => return Err(why),
            End::Terminated(exit) => {
                pod.learn(|known| known.exit = Some(exit));
                // Nothing runs that needs a grace period.
                Some(0)
            }
            End::Server(exit) => {
                pod.learn(|known| known.exit = Some(exit));
                Some(FORCED)
            }
            End::Alive => pod.force.is_cancelled().then_some(FORCED),
        };
        let order = grace.filter(|grace| ordered.is_none_or(|before| before > *grace));
        let refused = |error: &ClusterError| {
            let words = error.to_string();
            pod.learn(|known| known.refused = Some(words));
        };
        let ordering = async {
            match order {
                Some(grace) => {
                    let what = Order {
                        name: &pod.name,
                        uid: &pod.uid,
                        grace,
                        kept,
                    };
                    if grace > 0 {
                        pod.told().await;
                    }
                    order_deletion(&pod.cluster, what, Some(&pod.again), refused).await;
                    pod.learn(|known| known.refused = None);
                    grace
                }
                None => std::future::pending().await,
            }
        };
        // The pod may end meanwhile.
        tokio::select! {
            grace = ordering => ordered = Some(grace),
            changed = seen.changed() => if changed.is_err() {
                return Err("the pod is not watched any more".to_owned());
            },
            () = pod.force.cancelled(), if ordered.is_none() && order.is_none() => {}
        }
    }
}

/// Returns whether our finalizer keeps the pod's object.
fn is_kept(seen: &Seen) -> bool {
    seen.last.as_ref().is_some_and(|pod| pod.kept)
}

/// A deletion to request.
#[derive(Clone, Copy)]
struct Order<'a> {
    name: &'a str,
    uid: &'a str,
    /// 0 if nothing runs any more.
    grace: u32,
    /// Our finalizer keeps the object.
    kept: bool,
}

/// Requests the deletion until it is confirmed or the pod is absent; the watch then reports its
/// end.
async fn order_deletion(
    cluster: &Cluster,
    order: Order<'_>,
    again: Option<&Notify>,
    refused: impl Fn(&ClusterError),
) {
    let Order { name, uid, .. } = order;
    let what = Deletion {
        name,
        uid: Some(uid),
        grace: Some(order.grace),
        ..Deletion::default()
    };
    let has_gone = || cluster.has_gone(Kind::Pod, name, uid);
    let delete = || cluster.delete(Kind::Pod, what);
    until_answered(name, delete, has_gone, again, &refused).await;
    if order.kept && order.grace == 0 {
        let let_go = || cluster.let_go(name, uid);
        until_answered(name, let_go, has_gone, again, &refused).await;
    }
}

/// Retries with back-off without a limit, since the pod may still run. A conflict is final if the
/// pod `has_gone`. Each reason is reported once, and `again` triggers an immediate retry.
async fn until_answered<F, G>(
    name: &str,
    mut ask: impl FnMut() -> F,
    has_gone: impl Fn() -> G,
    again: Option<&Notify>,
    refused: &impl Fn(&ClusterError),
) where
    F: Future<Output = Result<(), ClusterError>>,
    G: Future<Output = bool>,
{
    let mut pauses = Pauses::patient();
    let mut told = String::new();
    while let Err(error) = ask().await {
        match error.meaning() {
            Meaning::Absent => return,
            Meaning::Conflict if has_gone().await => return,
            _ => {}
        }
        refused(&error);
        let words = error.to_string();
        match words == told {
            true => debug!(object = name, %error, "not deleted yet"),
            false => warn!(object = name, %error, "not deleted yet: asked again until it is"),
        }
        told = words;
        let asked = async {
            match again {
                Some(again) => again.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = pauses.after(&error) => {}
            () = asked => pauses = Pauses::patient(),
        }
    }
}

/// Ends a pod that did not become a server, and returns how far its end is known.
pub(crate) async fn undo(
    cluster: &Cluster,
    name: &str,
    mut seen: tokio::sync::watch::Receiver<Seen>,
) -> End {
    let mut ordered = None;
    loop {
        let now = end(&seen.borrow_and_update());
        let kept = is_kept(&seen.borrow());
        let uid = seen.borrow().last.as_ref().map(|pod| pod.uid.clone());
        let grace = match now {
            End::Gone(_) | End::Unproven(_) => return now,
            End::Terminated(_) => 0,
            End::Alive | End::Server(_) => FORCED,
        };
        if let Some(uid) = uid
            && ordered.is_none_or(|before| before > grace)
        {
            ordered = Some(grace);
            let what = Order {
                name,
                uid: &uid,
                grace,
                kept,
            };
            order_deletion(cluster, what, None, |_| {}).await;
        } else if seen.changed().await.is_err() {
            return now;
        }
    }
}

/// Removes a secret, which is not needed once its container runs. If its creation `may_come_true`
/// late, it is removed again after that.
pub(crate) async fn remove_secret(cluster: &Cluster, name: &str, may_come_true: bool) {
    remove_secret_now(cluster, name).await;
    if may_come_true {
        sleep(LATE_CREATE).await;
        remove_secret_now(cluster, name).await;
    }
}

async fn remove_secret_now(cluster: &Cluster, name: &str) {
    let what = Deletion {
        name,
        ..Deletion::default()
    };
    let remove = || cluster.delete(Kind::Secret, what);
    match Patience::new().answered(remove).await {
        Err(error) if error.meaning() != Meaning::Absent => {
            warn!(secret = name, %error, "a secret was not removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
