//! The search for pods of dead hosts: their Lease is not renewed within its validity, by the searcher's
//! clock. So a search takes that long if it meets such a Lease.

mod verdict;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::launch::{ReapReport, Remnant, RemnantKind, UnknownRemnant};
use tokio::time::timeout;
use tracing::{debug, info};

use crate::cluster::{Cluster, Deletion, Entry, Kind, Listed, Patience, Watcher};
use crate::error::{Meaning, Result};
use crate::facts::Facts;
use crate::labels;
use crate::pod::{remove_secret, until_end};
use verdict::{Seen, owner, silent};

const AT_ONCE: usize = 16;

/// Time limit for the proof of an orphan's end. Its kubelet gives it 2 s.
const PROOF: Duration = Duration::from_secs(60);

pub(crate) async fn reap(cluster: &Arc<Cluster>, own: &str) -> Result<ReapReport> {
    let mut report = ReapReport::new();
    let patience = Patience::new();
    // Without retries: a late response proves nothing about the hosts.
    let observed = silent(|| leases(cluster), own).await?;
    for lease in observed.undecided {
        let remnant = Remnant::record(&lease.name, "the Lease of a host that may be dead");
        let why = "the API server answered too late for too long to say whether it is renewed";
        report.unknown.push(UnknownRemnant::new(remnant, why));
    }
    let selector = labels::of_role(labels::ROLE_SERVER);
    let list = || cluster.list_as(Kind::Pod, &selector, Found::of);
    let pods = patience.answered(list).await?;
    // Read after the pods, since a host takes its Lease before it creates any. A Lease that exists
    // and was not found dead is a living host's, even an unreadable one.
    let there = patience.answered(|| leases(cluster)).await?;
    let there = there.into_iter().map(|lease| match lease {
        Ok(lease) => lease.instance,
        Err(instance) => instance,
    });
    let is_dead = |instance: &String| observed.dead.iter().any(|dead| dead.instance == *instance);
    let living: Vec<String> = there.filter(|instance| !is_dead(instance)).collect();
    let mut living: Vec<&str> = living.iter().map(String::as_str).collect();
    living.push(own);
    let watcher = Watcher::new(Arc::clone(cluster), selector.clone());
    let watcher = watcher.beginning(pods.metadata.resource_version);
    // Watch all before the first Lease is deleted: the garbage collector ends the pods as well, and
    // a watch does not report earlier events.
    let mut orphans = Vec::new();
    for found in pods.items {
        match found.owner.clone() {
            None => debug!(pod = found.name, "looks like a server's, and is not"),
            Some(host) if living.contains(&&*host) => report.spared.push(found.remnant),
            Some(host) => orphans.push((host, Orphan::of(&watcher, found))),
        }
    }
    for lease in observed.dead {
        match end_lease(cluster, &lease, &patience).await {
            Ok(true) => {
                info!(lease = lease.name, "the Lease of a dead host is deleted");
                continue;
            }
            Ok(false) => {}
            Err(error) => {
                let remnant = Remnant::record(&lease.name, "the Lease of a dead host");
                report
                    .unknown
                    .push(UnknownRemnant::new(remnant, error.to_string()));
            }
        }
        let spared = orphans.extract_if(.., |(host, _)| *host == lease.instance);
        report
            .spared
            .extend(spared.map(|(_, orphan)| orphan.remnant));
    }
    let ends = orphans.into_iter().map(|(_, orphan)| end(cluster, orphan));
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

/// Lists the Leases of hosts; of an unreadable one, the instance.
async fn leases(cluster: &Cluster) -> Result<Vec<Result<Seen, String>>> {
    let list: Listed<Lease> = cluster.list(Kind::Lease, labels::INSTANCE).await?;
    Ok(list.items.into_iter().filter_map(Seen::of).collect())
}

/// Deletes this version of the Lease, and returns `false` if it was renewed meanwhile.
async fn end_lease(cluster: &Cluster, lease: &Seen, patience: &Patience) -> Result<bool> {
    let what = Deletion {
        name: &lease.name,
        uid: Some(&lease.uid),
        version: Some(&lease.version),
        ..Deletion::default()
    };
    let deleted = patience
        .answered(|| cluster.delete(Kind::Lease, what))
        .await;
    match deleted {
        Err(error) if error.meaning == Meaning::Conflict => Ok(false),
        Err(error) if error.meaning == Meaning::Absent => Ok(true),
        deleted => deleted.map(|()| true),
    }
}

/// The part of a pod that is kept in memory: there may be thousands.
struct Found {
    name: String,
    owner: Option<String>,
    remnant: Remnant,
    facts: Facts,
}

impl Found {
    fn of(pod: Pod) -> Self {
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            owner: owner(&pod.metadata),
            remnant: remnant(&pod),
            facts: Facts::of(pod),
        }
    }
}

struct Orphan {
    name: String,
    remnant: Remnant,
    entry: Entry,
}

impl Orphan {
    fn of(watcher: &Watcher, found: Found) -> Self {
        let entry = watcher.enter(&found.name);
        entry.exists(found.facts);
        Self {
            name: found.name,
            remnant: found.remnant,
            entry,
        }
    }
}

async fn end(cluster: &Cluster, orphan: Orphan) -> Result<Remnant, UnknownRemnant> {
    let Orphan {
        name,
        remnant,
        entry,
    } = orphan;
    let (ended, _) = tokio::join!(
        timeout(PROOF, until_end(cluster, &name, entry.seen(), None)),
        timeout(PROOF, remove_secret(cluster, &name, false)),
    );
    let why = match ended {
        Ok(Ok(_)) => return Ok(remnant),
        Ok(Err(why)) => why,
        Err(_) => format!("no proof within {} s", PROOF.as_secs()),
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

#[cfg(test)]
mod tests;
