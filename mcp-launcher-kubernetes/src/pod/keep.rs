use std::sync::Arc;

use mcp_lifecycle_core::launch::ExitStatus;
use tokio::sync::{Notify, watch as channel};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{Known, LivePod};
use crate::cluster::{Cluster, Deletion, Kind, LATE_CREATE, Patience, Pauses};
use crate::decide::{End, Seen, end};
use crate::error::{ClusterError, Meaning, Result};
use crate::facts::Facts;

/// The grace of a forced end, in seconds. The kubelet raises it to 2; with 0 the object would be
/// deleted at once and the process killed some time later.
pub(super) const FORCED: u32 = 1;

pub(super) async fn keep(pod: Arc<LivePod>) {
    let end = until_end(&pod.cluster, &pod.name, pod.entry.seen(), Some(&pod)).await;
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

/// Deletes a pod once it has to end, and returns the evidence of its end, or why there can be none.
/// One that is not `live` did not become a server, and has to end at once.
pub(crate) async fn until_end(
    cluster: &Cluster,
    name: &str,
    mut seen: channel::Receiver<Seen>,
    live: Option<&LivePod>,
) -> Result<&'static str, String> {
    let has_to_end = || live.is_none_or(|live| live.force.is_cancelled());
    let learn = |change: &dyn Fn(&mut Known)| {
        if let Some(live) = live {
            live.learn(change);
        }
    };
    let mut ordered = None;
    loop {
        let (now, uid, kept, exit) = {
            let seen = seen.borrow_and_update();
            let pod = seen.last.as_ref();
            let uid = pod.map(|pod| pod.uid.clone());
            let kept = pod.is_some_and(|pod| pod.kept);
            (end(&seen), uid, kept, pod.and_then(Facts::exit))
        };
        // The exit may first be reported together with the deletion.
        if let Some(exit) = exit {
            learn(&|known| known.exit = Some(exit));
        }
        let grace = match now {
            End::Gone(evidence) => return Ok(evidence),
            End::Unproven(why) => return Err(why),
            End::Terminated(exit) => {
                learn(&|known| known.exit = Some(exit));
                // Nothing runs that needs a grace period.
                Some(0)
            }
            End::Server(exit) => {
                learn(&|known| known.exit = Some(exit));
                Some(FORCED)
            }
            End::Alive => has_to_end().then_some(FORCED),
        };
        let due = grace.filter(|grace| ordered.is_none_or(|before| before > *grace));
        let ordering = async {
            let (Some(grace), Some(uid)) = (due, &uid) else {
                return std::future::pending().await;
            };
            if let Some(live) = live.filter(|_| grace > 0) {
                live.told().await;
            }
            let order = Order {
                name,
                uid,
                grace,
                kept,
            };
            let refused = |error: &ClusterError| {
                let words = error.to_string();
                learn(&|known| known.refused = Some(words.clone()));
            };
            order_deletion(cluster, order, live.map(|live| &live.again), refused).await;
            learn(&|known| known.refused = None);
            grace
        };
        let forced = async {
            match live {
                Some(live) => live.force.cancelled().await,
                None => std::future::pending().await,
            }
        };
        // The pod may end meanwhile.
        tokio::select! {
            grace = ordering => ordered = Some(grace),
            changed = seen.changed() => if changed.is_err() {
                return Err("the pod is not watched any more".to_owned());
            },
            () = forced, if grace.is_none() => {}
        }
    }
}

#[derive(Clone, Copy)]
struct Order<'a> {
    name: &'a str,
    uid: &'a str,
    /// 0 if nothing runs any more.
    grace: u32,
    kept: bool,
}

/// Requests the deletion until it is confirmed or the pod is absent.
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
    F: Future<Output = Result<()>>,
    G: Future<Output = bool>,
{
    let mut pauses = Pauses::patient();
    let mut told = String::new();
    while let Err(error) = ask().await {
        match error.meaning {
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

/// Removes a secret, and again later if its creation `may_come_true` late.
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
        Err(error) if error.meaning != Meaning::Absent => {
            warn!(secret = name, %error, "a secret was not removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
