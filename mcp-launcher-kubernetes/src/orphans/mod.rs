//! The search for what dead hosts left behind.
//!
//! A host is dead when its Lease was not renewed for as long as it is valid, by the clock of
//! whoever searches: times that others have written are not compared with it. So a search that
//! finds a dead host's Lease takes as long; one that finds only living ones ends with their
//! next renewals.

mod verdict;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::launch::{ReapReport, Remnant, RemnantKind, UnknownRemnant};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use crate::cluster::{Cluster, Deletion, Kind, Listed, Pauses, Watcher, answered};
use crate::error::{ClusterError, Meaning};
use crate::labels;
use crate::pod::{End, Facts, remove_secret, undo};
use verdict::{Seen, Verdict, judge, was_renewed};

/// How often Leases are looked at while it is not known whether their hosts live.
const LOOK: Duration = Duration::from_secs(2);

/// How long a search goes on while the API does not answer.
const SEARCH: Duration = Duration::from_secs(120);

/// So many orphans are ended at a time.
const AT_ONCE: usize = 16;

/// How long the proof of an orphan's end may take. Its kubelet gives it 2 s.
const PROOF: Duration = Duration::from_secs(60);

/// Ends what dead hosts left behind in the namespace, and proves it.
pub(crate) async fn reap(cluster: &Arc<Cluster>, own: &str) -> Result<ReapReport, ClusterError> {
    let mut report = ReapReport::new();
    let mut living = vec![own.to_owned()];
    for lease in silent(cluster, own).await? {
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
    let pods: Vec<Pod> = {
        let selector = labels::of_role(labels::ROLE_SERVER);
        let list = || cluster.list(Kind::Pod, &selector);
        answered(crate::PATIENCE, list).await?.items
    };
    // Looked at after the pods: a host takes its Lease before it creates. One that is there and
    // was not found dead is a living host's, also where it cannot be read.
    living.extend(leases(cluster).await?.into_iter().map(|lease| match lease {
        Ok(lease) => lease.instance,
        Err(instance) => instance,
    }));
    let living: Vec<&str> = living.iter().map(String::as_str).collect();
    let watcher = Watcher::new(Arc::clone(cluster), labels::of_role(labels::ROLE_SERVER));
    let mut orphans = Vec::new();
    for pod in pods {
        match judge(&pod, &living) {
            Verdict::Orphan => orphans.push(pod),
            Verdict::Spared => report.spared.push(remnant(&pod)),
            Verdict::Stranger => {
                debug!(pod = pod.metadata.name, "looks like a server's, and is not");
            }
        }
    }
    let ends = orphans.into_iter().map(|pod| end(cluster, &watcher, pod));
    let mut ends = futures_util::stream::iter(ends).buffer_unordered(AT_ONCE);
    while let Some(ended) = ends.next().await {
        match ended {
            Ok(pod) => report.ended.push(pod),
            Err(unknown) => {
                info!(%unknown, "an orphan's end is not proven");
                report.failed.push(unknown.what);
            }
        }
    }
    Ok(report)
}

/// The Leases of hosts; of one that cannot be read, the instance.
async fn leases(cluster: &Cluster) -> Result<Vec<Result<Seen, String>>, ClusterError> {
    // Asked once: an answer that comes late says nothing about the hosts.
    let list: Listed<Lease> = cluster.list(Kind::Lease, labels::INSTANCE).await?;
    Ok(list.items.into_iter().filter_map(Seen::of).collect())
}

/// The Leases that were not renewed for as long as they are valid, while they could have been:
/// where the API did not answer at once, nobody may have been able to, and time begins anew.
async fn silent(cluster: &Cluster, own: &str) -> Result<Vec<Seen>, ClusterError> {
    let mut begun = Instant::now();
    let mut open: Option<Vec<Seen>> = None;
    let mut dead = Vec::new();
    let mut pauses = Pauses::new();
    loop {
        let asked = Instant::now();
        let now = match leases(cluster).await {
            Ok(now) => now,
            Err(error) if error.meaning() == Meaning::Refused => return Err(error),
            Err(error) if begun.elapsed() > SEARCH => return Err(error),
            Err(error) => {
                pauses.after(&error).await;
                open = None;
                continue;
            }
        };
        let others = now.into_iter().filter_map(Result::ok);
        let now: Vec<Seen> = others.filter(|lease| lease.instance != own).collect();
        if now.is_empty() {
            return Ok(dead);
        }
        let Some(before) = open.take_if(|_| asked.elapsed() <= LOOK) else {
            begun = Instant::now();
            open = Some(now);
            sleep(LOOK).await;
            continue;
        };
        let waited = begun.elapsed().as_secs();
        let mut left = Vec::new();
        for lease in before {
            match was_renewed(&lease, &now) {
                // Deleted by its host, or by another search; or its host lives.
                None | Some(true) => {}
                Some(false) if waited > lease.duration => dead.push(lease),
                Some(false) => left.push(lease),
            }
        }
        if left.is_empty() {
            return Ok(dead);
        }
        open = Some(left);
        sleep(LOOK).await;
    }
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
async fn end(cluster: &Cluster, watcher: &Watcher, pod: Pod) -> Result<Remnant, UnknownRemnant> {
    let remnant = remnant(&pod);
    let name = pod.metadata.name.clone().unwrap_or_default();
    let entry = watcher.enter(&name);
    entry.exists(Facts::of(pod));
    let ended = timeout(PROOF, undo(cluster, &name, entry.seen())).await;
    remove_secret(cluster, &name).await;
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
