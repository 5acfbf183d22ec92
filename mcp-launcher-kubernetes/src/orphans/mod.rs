//! The search for what dead hosts left behind.
//!
//! A host is dead when its Lease was not renewed for as long as it is valid, by the clock of
//! whoever searches: times that others have written are not compared with it. So a search that
//! finds a dead host's Lease takes as long; one that finds only living ones ends with their
//! next renewals.

mod verdict;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::launch::{ReapReport, Remnant, RemnantKind, UnknownRemnant};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use crate::cluster::{Cluster, Deletion, Kind, Watcher, answered};
use crate::error::{ClusterError, Meaning};
use crate::labels;
use crate::pod::{End, Facts, remove_secret, undo};
use verdict::{Seen, Verdict, judge, was_renewed};

/// How often Leases are looked at while it is not known whether their hosts live.
const LOOK: Duration = Duration::from_secs(2);

/// How long the proof of an orphan's end may take. Its kubelet gives it 2 s.
const PROOF: Duration = Duration::from_secs(60);

/// Ends what dead hosts left behind in the namespace, and proves it.
pub(crate) async fn reap(cluster: &Arc<Cluster>, own: &str) -> Result<ReapReport, ClusterError> {
    let mut report = ReapReport::new();
    let pods: Vec<Pod> = {
        let selector = labels::of_role(labels::ROLE_SERVER);
        let list = || cluster.list(Kind::Pod, &selector);
        answered(crate::PATIENCE, list).await?.items
    };
    let found = leases(cluster).await?;
    let others = found.into_iter().filter(|lease| lease.instance != own);
    let (mut living, dead) = observe(cluster, others.collect()).await?;
    for lease in dead {
        match end_lease(cluster, &lease).await {
            Ok(true) => info!(lease = lease.name, "the Lease of a dead host is deleted"),
            Ok(false) => living.push(lease.instance),
            Err(error) => {
                let remnant = Remnant::record(&lease.name, "the Lease of a dead host");
                report
                    .unknown
                    .push(UnknownRemnant::new(remnant, error.to_string()));
                living.push(lease.instance);
            }
        }
    }
    let living: Vec<&str> = living.iter().map(String::as_str).chain([own]).collect();
    let mut ending = Vec::new();
    for pod in pods {
        match judge(&pod, &living) {
            Verdict::Orphan => ending.push(tokio::spawn(end(Arc::clone(cluster), pod))),
            Verdict::Spared => report.spared.push(remnant(&pod)),
            Verdict::Stranger => {
                debug!(pod = pod.metadata.name, "looks like a server's, and is not")
            }
        }
    }
    for end in ending {
        match end.await {
            Ok(Ok(pod)) => report.ended.push(pod),
            Ok(Err(unknown)) => {
                info!(%unknown, "an orphan's end is not proven");
                report.failed.push(unknown.what);
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    Ok(report)
}

async fn leases(cluster: &Cluster) -> Result<Vec<Seen>, ClusterError> {
    let selector = labels::of_role(labels::ROLE_HOST);
    let list = || cluster.list::<Lease>(Kind::Lease, &selector);
    let list = answered(crate::PATIENCE, list).await?;
    Ok(list.items.into_iter().filter_map(Seen::of).collect())
}

/// Observes Leases until it is known of each whether its host lives: the instances of those
/// that do, and the Leases of the others.
async fn observe(
    cluster: &Cluster,
    mut open: Vec<Seen>,
) -> Result<(Vec<String>, Vec<Seen>), ClusterError> {
    let begun = Instant::now();
    let (mut living, mut dead) = (Vec::new(), Vec::new());
    while !open.is_empty() {
        sleep(LOOK).await;
        let now = leases(cluster).await?;
        let waited = begun.elapsed().as_secs();
        let mut left = Vec::new();
        for lease in open {
            match was_renewed(&lease, &now) {
                // Deleted by its host, or by another search: its pods are nobody's.
                None => {}
                Some(true) => living.push(lease.instance),
                Some(false) if waited > lease.duration => dead.push(lease),
                Some(false) => left.push(lease),
            }
        }
        open = left;
    }
    Ok((living, dead))
}

/// Deletes the Lease as it was seen: the garbage collector then deletes what it owns. `false`
/// when it was renewed in the last moment.
async fn end_lease(cluster: &Cluster, lease: &Seen) -> Result<bool, ClusterError> {
    let what = Deletion {
        name: &lease.name,
        uid: Some(&lease.uid),
        version: Some(&lease.version),
        grace: None,
    };
    let deleted = answered(crate::PATIENCE, || cluster.delete(Kind::Lease, what)).await;
    match deleted {
        Err(error) if error.meaning() == Meaning::Conflict => Ok(false),
        Err(error) if error.meaning() == Meaning::Absent => Ok(true),
        deleted => deleted.map(|()| true),
    }
}

/// Ends an orphan, and proves it.
async fn end(cluster: Arc<Cluster>, pod: Pod) -> Result<Remnant, UnknownRemnant> {
    let remnant = remnant(&pod);
    let name = pod.metadata.name.clone().unwrap_or_default();
    // Of this launch alone, and of no other pod whatever its name.
    let launch = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::LAUNCH));
    let selector = format!("{}={}", labels::LAUNCH, launch.map_or("", String::as_str));
    let watcher = Watcher::new(Arc::clone(&cluster), selector);
    let entry = watcher.enter(&name);
    entry.exists(Facts::of(pod));
    let ended = timeout(PROOF, undo(&cluster, &name, entry.seen())).await;
    remove_secret(&cluster, &name).await;
    let why = match ended {
        Ok(End::Gone(_)) => return Ok(remnant),
        Ok(End::Unproven(why)) => why,
        _ => format!("no proof within {} s", PROOF.as_secs()),
    };
    Err(UnknownRemnant::new(remnant, why))
}

fn remnant(pod: &Pod) -> Remnant {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let name = pod.metadata.name.clone().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let on = node.map_or_else(String::new, |node| format!(" on node {node}"));
    Remnant::new(RemnantKind::Other("pod".into()), uid, name + &on)
}
