//! The host's Lease: the owner of all its pods and secrets, renewed while there are any.
//!
//! ```text
//!   first pod ──▶ created ──▶ renewed every 10 s ──▶ the last pod is gone: deleted
//!                                │ the host dies: renewed no more
//!                                └──▶ another host's search deletes it, and with it all that it owns
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::cluster::{Cluster, Deletion, Kind, answered};
use crate::error::{ClusterError, Meaning};
use crate::labels;

/// How often it is renewed.
const RENEWED: Duration = Duration::from_secs(10);

/// How long a renewal may take, and the pause after one that was not answered.
const ANSWERED: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(2);

/// How long it is valid without: some renewals may be late or lost.
const DURATION: i32 = 40;

/// How long the end of the last pod waits for the end of the Lease.
const DELETED: Duration = Duration::from_secs(2);

/// The Lease of one launcher.
#[derive(Debug, Clone)]
pub(crate) struct Leases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    instance: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
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
    pub(crate) fn new(cluster: Arc<Cluster>, instance: String) -> Self {
        Self(Arc::new(Shared {
            cluster,
            instance,
            state: Mutex::default(),
        }))
    }

    /// Makes sure that there is a Lease, until all shares in it are released.
    pub(crate) async fn hold(&self) -> Result<Held, ClusterError> {
        let mut state = self.0.state.lock().await;
        if state.current.is_none() {
            let (uid, version) = self.create().await?;
            let renewing = tokio::spawn(renew(Arc::clone(&self.0), uid.clone()));
            state.current = Some(Current {
                uid,
                version,
                holders: 0,
                renewing,
            });
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

    async fn create(&self) -> Result<(String, String), ClusterError> {
        let Shared {
            cluster, instance, ..
        } = &*self.0;
        let name = labels::lease_name(instance);
        let owner = own_pod(cluster.namespace().await?);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "labels": labels::of_host(instance), "ownerReferences": owner},
            "spec": {
                "holderIdentity": holder(instance), "leaseDurationSeconds": DURATION,
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        let create = || cluster.created::<Lease>(Kind::Lease, &lease);
        let created = match answered(crate::PATIENCE, create).await {
            // Of an answer that was lost, or of a deletion that has not been carried out.
            Err(error) if error.meaning() == Meaning::Conflict => {
                let renewal = renewal(None);
                let patch = || cluster.patch::<Lease>(Kind::Lease, &name, &renewal);
                answered(crate::PATIENCE, patch).await?
            }
            created => created?,
        };
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
        let what = Deletion {
            name: &name,
            uid: Some(&current.uid),
            // A deletion that comes true late does not take what was taken again meanwhile.
            version: Some(&current.version),
            grace: None,
        };
        match timeout(DELETED, cluster.delete(Kind::Lease, what)).await {
            Ok(Err(error)) if error.meaning() != Meaning::Absent => {
                warn!(lease = name, %error, "the Lease stays, for a search to find");
            }
            Err(_) => warn!(lease = name, "the Lease stays, for a search to find"),
            _ => {}
        }
    }
}

/// Renews until it is aborted, or the Lease is lost: the next pod takes a new one.
async fn renew(shared: Arc<Shared>, uid: String) {
    let name = labels::lease_name(&shared.instance);
    let fields = || renewal(Some(&uid));
    let mut pause = RENEWED;
    loop {
        sleep(pause).await;
        let fields = fields();
        let renewing = shared.cluster.patch::<Lease>(Kind::Lease, &name, &fields);
        let renewed = timeout(ANSWERED, renewing).await;
        let mut state = shared.state.lock().await;
        let current = state.current.as_mut().filter(|now| now.uid == uid);
        let Some(current) = current else { return };
        pause = RENEWED;
        match renewed {
            Ok(Ok(lease)) => {
                current.version = lease.metadata.resource_version.unwrap_or_default();
            }
            Ok(Err(error)) if matches!(error.meaning(), Meaning::Absent | Meaning::Conflict) => {
                warn!(lease = name, %error, "the Lease is lost: its pods will be ended");
                state.current = None;
                return;
            }
            Ok(Err(error)) => {
                warn!(lease = name, %error, "the Lease was not renewed");
                pause = AGAIN;
            }
            Err(_) => {
                warn!(lease = name, "the Lease was not renewed: no answer");
                pause = AGAIN;
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

/// The pod that this host is, where its environment says so: the Lease ends with it.
fn own_pod(namespace: &str) -> Value {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = (
        variable("POD_NAME"),
        variable("POD_UID"),
        variable("POD_NAMESPACE"),
    );
    match named {
        // An owner must be in the same namespace, or what it owns is deleted at once.
        (Some(name), Some(uid), Some(its)) if its == namespace => {
            json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}])
        }
        _ => json!([]),
    }
}
