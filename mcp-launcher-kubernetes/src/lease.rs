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

use crate::cluster::{Cluster, Deletion, Kind, Patience};
use crate::error::{ClusterError, Meaning};
use crate::labels;
use crate::pod::LATE_CREATE;
use owner::{Own, owner};

/// How long a Lease is valid without a renewal, unless a host says otherwise.
pub(crate) const VALID: Duration = Duration::from_secs(40);

/// What a host may say. One that is too short is lost to a busy machine; a search observes none
/// for longer.
const SHORTEST: Duration = Duration::from_secs(8);
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

/// Clocks of a Lease, all by how long it is valid without a renewal.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    /// In whole seconds.
    valid: u16,
}

impl Clocks {
    fn new(valid: Duration) -> Self {
        let valid = valid.clamp(SHORTEST, LONGEST).as_secs();
        Self {
            valid: valid.try_into().unwrap_or(u16::MAX),
        }
    }

    fn part(self, part: u32) -> Duration {
        Duration::from_secs(self.valid.into()) / part
    }

    /// How often it is renewed: some renewals may be late or lost.
    fn renewed(self) -> Duration {
        self.part(4)
    }

    /// How long a renewal may take.
    fn answered(self) -> Duration {
        self.part(8)
    }

    /// The pause after one that was not answered.
    fn again(self) -> Duration {
        self.part(20)
    }
}

/// How long the end of the last pod waits for the end of the Lease.
const DELETED: Duration = Duration::from_secs(2);

/// The Lease of one launcher.
#[derive(Debug, Clone)]
pub(crate) struct Leases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    instance: String,
    clocks: Clocks,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// When none could be taken, the last time, and why.
    failed: Option<(Instant, Arc<ClusterError>)>,
}

#[derive(Debug)]
struct Current {
    uid: String,
    /// As of the last answer.
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
    /// Of a host of this name, valid for so long.
    pub(crate) fn new(cluster: Arc<Cluster>, instance: String, valid: Duration) -> Self {
        Self(Arc::new(Shared {
            cluster,
            instance,
            clocks: Clocks::new(valid),
            state: Mutex::default(),
        }))
    }

    /// Makes sure that there is a Lease, until all shares in it are released. Not to be dropped
    /// on the way: what is created then is nobody's.
    ///
    /// Launches take it one after another. The time in which one fails is the time of all who
    /// wait for it, so that many that fail together do so at once.
    pub(crate) async fn hold(&self, patience: &Patience) -> Result<Held, ClusterError> {
        let asked = Instant::now();
        let mut state = self.0.state.lock().await;
        if state.current.is_none() {
            if let Some((at, error)) = &state.failed
                && *at >= asked
                && !patience.waited(error, *at - asked)
            {
                return Err(ClusterError::Shared(Arc::clone(error)));
            }
            state.current = match self.take(patience).await {
                Ok(taken) => Some(taken),
                // Of its own caller alone.
                Err(ClusterError::Cancelled) => return Err(ClusterError::Cancelled),
                Err(error) => {
                    let error = Arc::new(error);
                    state.failed = Some((Instant::now(), Arc::clone(&error)));
                    return Err(ClusterError::Shared(error));
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

    async fn take(&self, patience: &Patience) -> Result<Current, ClusterError> {
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

    /// Creates the Lease. What any attempt has left open is told by `may_exist`.
    async fn create(
        &self,
        owner: &Value,
        may_exist: &AtomicBool,
        patience: &Patience,
    ) -> Result<(String, String), ClusterError> {
        let Shared {
            cluster,
            instance,
            clocks,
            ..
        } = &*self.0;
        let name = labels::lease_name(instance);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "labels": labels::of_host(instance), "ownerReferences": owner},
            "spec": {
                "holderIdentity": holder(instance), "leaseDurationSeconds": clocks.valid,
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        let take = async || {
            let error = match cluster.created::<Lease>(Kind::Lease, &lease).await {
                Err(error) => error,
                created => return created,
            };
            // Of any attempt: the refusal of a later one says nothing about it.
            if error.may_come_true() {
                may_exist.store(true, Ordering::Relaxed);
            }
            if error.meaning() != Meaning::Exists {
                return Err(error);
            }
            // Of an answer that was lost, or of a deletion that has not been carried out.
            let renewal = renewal(None);
            match cluster.patch(Kind::Lease, &name, &renewal).await {
                // It has been carried out meanwhile: the Lease is created after it.
                Err(gone) if gone.meaning() == Meaning::Absent => Err(ClusterError::Contended {
                    action: "create leases".to_owned(),
                    words: error.to_string(),
                }),
                taken => taken,
            }
        };
        let created = patience.answered(take).await?;
        let version = created.metadata.resource_version.unwrap_or_default();
        Ok((created.metadata.uid.unwrap_or_default(), version))
    }
}

impl Held {
    /// The owner of what is created for the pod.
    pub(crate) fn owner(&self) -> Value {
        let name = labels::lease_name(&self.leases.0.instance);
        json!([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "uid": self.uid}])
    }

    /// Gives the share back. With the last one the Lease is deleted, and that is waited for,
    /// but not for long.
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
        // Another one, where this one's Lease was lost.
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
        let deleting = delete(cluster, &name, &current.uid, current.version);
        match timeout(DELETED * 2, deleting).await {
            Ok(Err(error)) => warn!(lease = name, %error, "the Lease stays, for a search to find"),
            Err(_) => warn!(lease = name, "the Lease stays, for a search to find"),
            Ok(Ok(())) => {}
        }
    }
}

/// Deletes the Lease as it was last seen: a deletion that comes true late does not take what was
/// taken again meanwhile.
async fn delete(
    cluster: &Cluster,
    name: &str,
    uid: &str,
    mut version: String,
) -> Result<(), ClusterError> {
    loop {
        let what = Deletion {
            name,
            uid: Some(uid),
            version: Some(&version),
            grace: None,
        };
        let Err(error) = cluster.delete(Kind::Lease, what).await else {
            return Ok(());
        };
        match error.meaning() {
            Meaning::Absent => return Ok(()),
            Meaning::Conflict => {}
            _ => return Err(error),
        }
        // A renewal was under way, and came true: there is a newer version. Of another Lease of
        // this name it is a conflict again.
        let fields = renewal(Some(uid));
        match cluster.patch::<Lease>(Kind::Lease, name, &fields).await {
            Ok(lease) => version = lease.metadata.resource_version.unwrap_or_default(),
            Err(error) if matches!(error.meaning(), Meaning::Absent | Meaning::Conflict) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// A Lease whose create nobody has answered may come true late: it is deleted then, unless
/// somebody holds it.
async fn forget(shared: Arc<Shared>) {
    sleep(LATE_CREATE).await;
    let state = shared.state.lock().await;
    if state.current.is_some() {
        return;
    }
    let name = labels::lease_name(&shared.instance);
    let cluster = &shared.cluster;
    // Within the lock: nobody takes it meanwhile. A deletion that comes true later does not take
    // what was taken since, for that has another version.
    let deleting = async {
        let fields = renewal(None);
        let lease = match cluster.patch::<Lease>(Kind::Lease, &name, &fields).await {
            Err(error) if error.meaning() == Meaning::Absent => return Ok(()),
            found => found?.metadata,
        };
        let (uid, version) = (lease.uid, lease.resource_version);
        let uid = uid.unwrap_or_default();
        delete(cluster, &name, &uid, version.unwrap_or_default()).await
    };
    match timeout(DELETED * 2, deleting).await {
        Ok(Err(error)) => warn!(lease = name, %error, "a Lease may stay, for a search to find"),
        Err(_) => warn!(lease = name, "a Lease may stay, for a search to find"),
        Ok(Ok(())) => {}
    }
}

/// Renews until it is aborted, or the Lease is lost: the next pod takes a new one.
async fn renew(shared: Arc<Shared>, uid: String) {
    let name = labels::lease_name(&shared.instance);
    let fields = || renewal(Some(&uid));
    let clocks = shared.clocks;
    let mut pause = clocks.renewed();
    // The API server says the same where the Lease is another one, and where it gave up writing
    // beside others. The second time it is another one.
    let mut was_refused = false;
    loop {
        sleep(pause).await;
        let fields = fields();
        let renewing = shared.cluster.patch::<Lease>(Kind::Lease, &name, &fields);
        let renewed = timeout(clocks.answered(), renewing).await;
        let mut state = shared.state.lock().await;
        let current = state.current.as_mut().filter(|now| now.uid == uid);
        let Some(current) = current else { return };
        pause = clocks.renewed();
        match renewed {
            Ok(Ok(lease)) => {
                current.version = lease.metadata.resource_version.unwrap_or_default();
                was_refused = false;
            }
            Ok(Err(error)) if error.meaning() == Meaning::Conflict && !was_refused => {
                warn!(lease = name, %error, "the Lease was not renewed");
                was_refused = true;
                pause = clocks.again();
            }
            Ok(Err(error)) if matches!(error.meaning(), Meaning::Absent | Meaning::Conflict) => {
                warn!(lease = name, %error, "the Lease is lost: its pods will be ended");
                state.current = None;
                return;
            }
            Ok(Err(error)) => {
                warn!(lease = name, %error, "the Lease was not renewed");
                pause = clocks.again();
            }
            Err(_) => {
                warn!(lease = name, "the Lease was not renewed: no answer");
                pause = clocks.again();
            }
        }
    }
}

/// Of this Lease alone, if it is known: another one of its name is a conflict.
fn renewal(uid: Option<&str>) -> Value {
    let mut fields = json!({"spec": {"renewTime": MicroTime(Timestamp::now())}});
    if let Some(uid) = uid {
        fields["metadata"]["uid"] = uid.into();
    }
    fields
}

/// For people.
fn holder(instance: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} pid {} ({instance})", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests;
