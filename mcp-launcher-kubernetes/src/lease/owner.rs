//! The owner of a host's Lease: the host's own pod, if it runs in one.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tracing::warn;

use crate::cluster::{Cluster, Kind, Patience};
use crate::error::{Case, Meaning, Result};

pub(super) struct Own {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) namespace: String,
}

impl Own {
    pub(super) fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            name: variable("POD_NAME")?,
            uid: variable("POD_UID")?,
            namespace: variable("POD_NAMESPACE")?,
        })
    }
}

/// Returns the host's pod as the owner, if it is in the servers' cluster and namespace.
pub(super) async fn owner(
    cluster: &Cluster,
    own: Option<Own>,
    patience: &Patience,
) -> Result<Value> {
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
        Err(error) => match error.meaning {
            Meaning::Absent => Ok(nobody),
            Meaning::Refused if error.case != Case::Cancelled => {
                warn!(pod = own.name, %error, "the host's own pod does not own its servers");
                Ok(nobody)
            }
            _ => Err(error),
        },
    }
}
