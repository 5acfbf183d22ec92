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

/// How long it is valid without: three renewals may be late or lost.
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
    holders: usize,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    uid: String,
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
        let uid = match &state.current {
            Some(current) => current.uid.clone(),
            None => {
                let uid = self.create().await?;
                let renewing = tokio::spawn(renew(Arc::clone(&self.0)));
                state.current = Some(Current {
                    uid: uid.clone(),
                    renewing,
                });
                uid
            }
        };
        state.holders += 1;
        let leases = self.clone();
        Ok(Held { leases, uid })
    }

    async fn create(&self) -> Result<String, ClusterError> {
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
                let renewal = renewal();
                let patch = || cluster.patch::<Lease>(Kind::Lease, &name, &renewal);
                answered(crate::PATIENCE, patch).await?
            }
            created => created?,
        };
        Ok(created.metadata.uid.unwrap_or_default())
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
    pub(crate) async fn release(&self) {
        let Shared {
            cluster,
            instance,
            state,
        } = &*self.leases.0;
        let mut state = state.lock().await;
        state.holders = state.holders.saturating_sub(1);
        if state.holders > 0 {
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
            version: None,
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

/// Renews until it is aborted.
async fn renew(shared: Arc<Shared>) {
    let name = labels::lease_name(&shared.instance);
    loop {
        sleep(RENEWED).await;
        let fields = renewal();
        let renewed = shared.cluster.patch::<Lease>(Kind::Lease, &name, &fields);
        if let Err(error) = renewed.await {
            warn!(lease = name, %error, "the Lease was not renewed");
        }
    }
}

fn renewal() -> Value {
    json!({"spec": {"renewTime": MicroTime(Timestamp::now())}})
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
