//! The host's Lease: the owner of all its pods and secrets, renewed while there are any.
//!
//! ```text
//!   first pod ──▶ created ──▶ renewed every 10 s ──▶ the last pod is gone: deleted
//!                                │ the host dies: renewed no more
//!                                └──▶ another host's search deletes it, and with it all that it owns
//! ```

mod owner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::cluster::{Cluster, Deletion, Kind, LATE_CREATE, Patience};
use crate::error::{Case, ClusterError, Meaning, Result};
use crate::labels;
use owner::{Own, owner};

pub(crate) const VALID: Duration = Duration::from_secs(40);

/// Bounds of the configured validity; a search observes a Lease for no longer than the longest.
const SHORTEST: Duration = Duration::from_secs(8);
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

/// Parts of the validity: the time between two renewals, which tolerates some late or lost ones, the
/// time for an answer, and the time before a failed one is repeated.
const RENEWED: u32 = 4;
const ANSWERED: u32 = 8;
const AGAIN: u32 = 20;

/// Longest wait of the last pod's end for the Lease's deletion.
const DELETED: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct Leases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    instance: String,
    valid: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    failed: Option<(Instant, ClusterError)>,
}

#[derive(Debug)]
struct Current {
    uid: String,
    version: String,
    holders: usize,
    renewing: JoinHandle<()>,
}

/// A share in the Lease, for one pod.
#[derive(Debug)]
pub(crate) struct Held {
    leases: Leases,
    uid: String,
}

impl Leases {
    pub(crate) fn new(cluster: Arc<Cluster>, instance: String, valid: Duration) -> Self {
        Self(Arc::new(Shared {
            cluster,
            instance,
            valid: valid.clamp(SHORTEST, LONGEST),
            state: Mutex::default(),
        }))
    }

    /// Takes a share in the Lease, which exists until all shares are released. Must not be dropped
    /// midway: a Lease created then has no holder. Callers proceed one after another, and share a
    /// failure.
    pub(crate) async fn hold(&self, patience: &Patience) -> Result<Held> {
        let asked = Instant::now();
        let mut state = self.0.state.lock().await;
        if state.current.is_none() {
            if let Some((at, error)) = &state.failed
                && *at >= asked
                && !patience.waited(error, *at - asked)
            {
                return Err(error.clone());
            }
            state.current = match self.take(patience).await {
                Ok(taken) => Some(taken),
                // A cancellation concerns its own caller alone.
                Err(error) if error.case == Case::Cancelled => return Err(error),
                Err(error) => {
                    state.failed = Some((Instant::now(), error.clone()));
                    return Err(error);
                }
            };
        }
        let Some(current) = &mut state.current else {
            unreachable!("it was made above")
        };
        current.holders += 1;
        Ok(Held {
            leases: self.clone(),
            uid: current.uid.clone(),
        })
    }

    async fn take(&self, patience: &Patience) -> Result<Current> {
        let own = Own::of_environment();
        let owner = owner(&self.0.cluster, own, patience).await?;
        let may_exist = AtomicBool::new(false);
        let created = self.create(&owner, &may_exist, patience).await;
        if created.is_err() && may_exist.into_inner() {
            tokio::spawn(forget(Arc::clone(&self.0)));
        }
        let (uid, version) = created?;
        let renewing = tokio::spawn(renew(Arc::clone(&self.0), uid.clone()));
        Ok(Current {
            uid,
            version,
            holders: 0,
            renewing,
        })
    }

    /// Creates the Lease. Sets `may_exist` if any attempt may still take effect.
    async fn create(
        &self,
        owner: &Value,
        may_exist: &AtomicBool,
        patience: &Patience,
    ) -> Result<(String, String)> {
        let Shared {
            cluster,
            instance,
            valid,
            ..
        } = &*self.0;
        let name = labels::lease_name(instance);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "labels": labels::of_host(instance), "ownerReferences": owner},
            "spec": {
                "holderIdentity": holder(instance), "leaseDurationSeconds": valid.as_secs(),
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        let take = async || {
            let error = match cluster.create::<Lease>(Kind::Lease, &lease).await {
                Err(error) => error,
                created => return created,
            };
            // A later refusal does not undo an earlier attempt.
            if error.may_come_true() {
                may_exist.store(true, Ordering::Relaxed);
            }
            if error.meaning != Meaning::Exists {
                return Err(error);
            }
            // From an earlier attempt with a lost response, or a pending deletion.
            let renewal = renewal(None);
            match cluster.patch(Kind::Lease, &name, &renewal).await {
                // The deletion has completed meanwhile: retry the creation.
                Err(gone) if gone.meaning == Meaning::Absent => {
                    Err(ClusterError::contended("create leases", &error.to_string()))
                }
                taken => taken,
            }
        };
        let created = patience.answered(take).await?;
        let version = created.metadata.resource_version.unwrap_or_default();
        Ok((created.metadata.uid.unwrap_or_default(), version))
    }
}

impl Held {
    pub(crate) fn owner(&self) -> Value {
        let name = labels::lease_name(&self.leases.0.instance);
        json!([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "uid": self.uid}])
    }

    /// Returns the share. With the last one the Lease is deleted, which is awaited briefly.
    pub(crate) async fn release(self: Arc<Self>) {
        let released = tokio::spawn(async move { self.release_now().await });
        let _ = timeout(DELETED, released).await;
    }

    async fn release_now(&self) {
        let Shared {
            cluster,
            instance,
            state,
            ..
        } = &*self.leases.0;
        let mut state = state.lock().await;
        // This share's Lease was lost and another one taken.
        let Some(current) = state.current.as_mut().filter(|now| now.uid == self.uid) else {
            return;
        };
        current.holders = current.holders.saturating_sub(1);
        if current.holders > 0 {
            return;
        }
        let Some(current) = state.current.take() else {
            return;
        };
        current.renewing.abort();
        let name = labels::lease_name(instance);
        bounded(&name, delete(cluster, &name, &current.uid, current.version)).await;
    }
}

/// Deletes the Lease at its last known version: another host may have taken it since.
async fn delete(cluster: &Cluster, name: &str, uid: &str, mut version: String) -> Result<()> {
    loop {
        let what = Deletion {
            name,
            uid: Some(uid),
            version: Some(&version),
            ..Deletion::default()
        };
        let Err(error) = cluster.delete(Kind::Lease, what).await else {
            return Ok(());
        };
        match error.meaning {
            Meaning::Absent => return Ok(()),
            Meaning::Conflict => {}
            _ => return Err(error),
        }
        // A renewal in flight has changed the version. Another Lease of this name conflicts again.
        let fields = renewal(Some(uid));
        match cluster.patch::<Lease>(Kind::Lease, name, &fields).await {
            Ok(lease) => version = lease.metadata.resource_version.unwrap_or_default(),
            Err(error) if matches!(error.meaning, Meaning::Absent | Meaning::Conflict) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Deletes an unheld Lease that was created late, by a request without a response.
async fn forget(shared: Arc<Shared>) {
    sleep(LATE_CREATE).await;
    let state = shared.state.lock().await;
    if state.current.is_some() {
        return;
    }
    let name = labels::lease_name(&shared.instance);
    let cluster = &shared.cluster;
    // The lock keeps others from taking it meanwhile; a late deletion fails by version.
    let deleting = async {
        let fields = renewal(None);
        let lease = match cluster.patch::<Lease>(Kind::Lease, &name, &fields).await {
            Err(error) if error.meaning == Meaning::Absent => return Ok(()),
            found => found?.metadata,
        };
        let (uid, version) = (lease.uid, lease.resource_version);
        let uid = uid.unwrap_or_default();
        delete(cluster, &name, &uid, version.unwrap_or_default()).await
    };
    bounded(&name, deleting).await;
}

async fn bounded(lease: &str, deleting: impl Future<Output = Result<()>>) {
    match timeout(DELETED * 2, deleting).await {
        Ok(Err(error)) => warn!(lease, %error, "a Lease may stay, for a search to find"),
        Err(_) => warn!(lease, "a Lease may stay, for a search to find"),
        Ok(Ok(())) => {}
    }
}

/// Renews until aborted or until the Lease is lost; the next pod then takes a new one.
async fn renew(shared: Arc<Shared>, uid: String) {
    let name = labels::lease_name(&shared.instance);
    let fields = || renewal(Some(&uid));
    let valid = shared.valid;
    let mut pause = valid / RENEWED;
    // A conflict is also the response to a write that lost a race, so only a second one in a row
    // means another Lease.
    let mut was_refused = false;
    loop {
        sleep(pause).await;
        let fields = fields();
        let renewing = shared.cluster.patch::<Lease>(Kind::Lease, &name, &fields);
        let renewed = timeout(valid / ANSWERED, renewing).await;
        let mut state = shared.state.lock().await;
        let current = state.current.as_mut().filter(|now| now.uid == uid);
        let Some(current) = current else { return };
        pause = valid / RENEWED;
        match renewed {
            Ok(Ok(lease)) => {
                current.version = lease.metadata.resource_version.unwrap_or_default();
                was_refused = false;
            }
            Ok(Err(error)) if error.meaning == Meaning::Conflict && !was_refused => {
                warn!(lease = name, %error, "the Lease was not renewed");
                was_refused = true;
                pause = valid / AGAIN;
            }
            Ok(Err(error)) if matches!(error.meaning, Meaning::Absent | Meaning::Conflict) => {
                warn!(lease = name, %error, "the Lease is lost: its pods will be ended");
                state.current = None;
                return;
            }
            Ok(Err(error)) => {
                warn!(lease = name, %error, "the Lease was not renewed");
                pause = valid / AGAIN;
            }
            Err(_) => {
                warn!(lease = name, "the Lease was not renewed: no answer");
                pause = valid / AGAIN;
            }
        }
    }
}

/// Returns a renewal, of this Lease alone if `uid` is known.
fn renewal(uid: Option<&str>) -> Value {
    let mut fields = json!({"spec": {"renewTime": MicroTime(Timestamp::now())}});
    if let Some(uid) = uid {
        fields["metadata"]["uid"] = uid.into();
    }
    fields
}

fn holder(instance: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} pid {} ({instance})", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests;
