//! The owner of a host's Lease: the pod that the host is, if it is one.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tracing::warn;

use crate::cluster::{Cluster, Kind, Patience};
use crate::error::{ClusterError, Meaning};

/// The pod that a host is.
pub(super) struct Own {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) namespace: String,
}

impl Own {
    /// Where the environment says so.
    pub(super) fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            name: variable("POD_NAME")?,
            uid: variable("POD_UID")?,
            namespace: variable("POD_NAMESPACE")?,
        })
    }
}

/// The owner of the Lease: the host's pod, with which it ends. An owner that is not there takes
/// with it what it owns, so it has to be in the same namespace, and of the cluster that the
/// servers are in: a host may have the configuration of another one.
pub(super) async fn owner(
    cluster: &Cluster,
    own: Option<Own>,
    patience: &Patience,
) -> Result<Value, ClusterError> {
    let nobody = json!([]);
    let namespace = cluster.namespace().await?;
    let Some(own) = own.filter(|own| own.namespace == namespace) else {
        return Ok(nobody);
    };
    let get = || cluster.get::<Pod>(Kind::Pod, &own.name);
    match patience.answered(get).await {
        Ok(pod) if pod.metadata.uid.as_deref() == Some(&own.uid) => {
            let Own { name, uid, .. } = own;
            Ok(json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]))
        }
        Ok(_) => Ok(nobody),
        Err(error) => match error.meaning() {
            Meaning::Absent => Ok(nobody),
            Meaning::Refused if !matches!(error, ClusterError::Cancelled) => {
                warn!(pod = own.name, %error, "the host's own pod does not own its servers");
                Ok(nobody)
            }
            _ => Err(error),
        },
    }
}
